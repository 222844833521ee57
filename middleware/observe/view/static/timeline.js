// The last half minute: for each result a bar from when it came early to when it was final, or withdrawn.
import { canvasOf, colours, duration } from "./words.js";

const SPAN = 30_000;

export function showLine(canvas, words, results, now) {
  const types = [...new Set(results.map((one) => one.type))].sort(), lane = types.length > 12 ? 16 : 30, part = lane / 4;
  canvas.style.height = `${Math.max(4, types.length) * lane + 24}px`;
  const [context, width, height] = canvasOf(canvas), colour = colours(), below = new Map();
  const left = Math.min(130, width / 3), scale = (width - left - 8) / SPAN, end = Math.max(now, ...results.map((one) => one.final ?? one.early));
  context.font = "12px system-ui, DejaVu Sans, sans-serif";
  context.textBaseline = "middle";
  types.forEach((type, row) => {
    const y = row * lane + lane / 2;
    context.fillStyle = colour.quiet;
    context.fillText(type.split(".").at(-1), 0, y, left - 8);
    context.fillStyle = colour.rule;
    context.fillRect(left, y + lane / 2 - 1, width - left, 1);
  });
  for (const one of results) {
    const from = Math.max(left, left + (one.early - end + SPAN) * scale), until = one.final ?? (one.state === "withdrawn" ? one.changed : end);
    const row = types.indexOf(one.type), place = below.get(row) ?? 0; // three under each other, so that they can be told apart
    below.set(row, (place + 1) % 3);
    const to = left + (until - end + SPAN) * scale, y = row * lane + (place + 1) * part;
    if (to < left) continue;
    context.fillStyle = context.strokeStyle = colour[one.state];
    context.globalAlpha = one.final === null && one.state !== "withdrawn" ? 0.55 : 0.9;
    context.fillRect(from, y - part / 2 + 1, Math.max(2, to - from), part - 1);
    context.globalAlpha = 1;
    if (one.corrections && one.state !== "withdrawn") { // a correction: a notch where it came
      context.fillStyle = colour.revised;
      context.fillRect(left + (one.changed - end + SPAN) * scale - 1, y - part, 3, 2 * part);
    }
  }
  context.fillStyle = colour.quiet;
  for (let second = 0; second <= SPAN; second += 10_000) {
    const label = second === SPAN ? "now" : `-${(SPAN - second) / 1000} s`;
    context.fillText(label, Math.min(left + second * scale, width - 28), height - 8);
  }
  const done = results.filter((one) => one.final !== null).map((one) => one.final - one.early).sort((a, b) => a - b);
  const late = results.filter((one) => one.delay !== null).map((one) => one.delay).sort((a, b) => a - b);
  words.textContent = (done.length ? `Known early ${duration(done[done.length >> 1])} before it is final (median of the last ${done.length}).` : "Nothing is final yet.")
    + (late.length ? ` Heard of ${duration(late[late.length >> 1])} after it happened (median).` : "");
}
