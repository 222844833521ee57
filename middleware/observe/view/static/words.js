// Numbers and times for people, and the few helpers that all parts share.
export const share = (value) => `${Math.round(100 * value)} %`;
export const rate = (value) => value === undefined ? "" : value >= 1000 ? `${(value / 1000).toFixed(1)}k/s` : `${value >= 10 || value === 0 ? Math.round(value) : value.toFixed(1)}/s`;

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (Math.abs(ms) < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function at(ms) { // a moment: the time of day if it is Unix time, else seconds of the recording
  if (ms < 631_152_000_000) return `${(ms / 1000).toFixed(2)} s`;
  const moment = new Date(ms), part = (number, width = 2) => String(number).padStart(width, "0");
  return `${part(moment.getHours())}:${part(moment.getMinutes())}:${part(moment.getSeconds())}.${part(moment.getMilliseconds(), 3)}`;
}

export function element(name, properties = {}) { return Object.assign(document.createElement(name), properties); }
export function drawn(name, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// Children that stand for items, each made once and kept: so that focus and selection stay where they are.
export function fill(parent, items, key, make, update) {
  const known = parent.known ??= new Map(), wanted = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    wanted.add(name);
    let child = known.get(name);
    if (!child) known.set(name, child = make(item));
    if (child === place) place = place.nextElementSibling; else parent.insertBefore(child, place);
    update(child, item);
  }
  for (const [name, child] of known) if (!wanted.has(name)) { child.remove(); known.delete(name); }
}

// A canvas in its real size, as sharp as the screen; returns its context, width and height.
export function canvasOf(canvas) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}

export function colours() {
  const style = getComputedStyle(document.documentElement);
  return new Proxy({}, { get: (_, name) => style.getPropertyValue(`--${name}`).trim() });
}
