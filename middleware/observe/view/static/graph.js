// The hierarchy: a column for each level, a box for each detector, a curve for each stream between two.
import { drawn, duration, fill, rate, share } from "./words.js";

const WIDE = 176, HIGH = 54, APART = 40, BETWEEN = 10;
let drawnFor = ""; // which detectors the boxes and curves stand for

export function showGraph(svg, units, choose) {
  const shape = units.map((unit) => `${unit.name}<${unit.above}`).join();
  const places = placed(units);
  if (shape !== drawnFor) { drawnFor = shape; curves(svg, units, places); }
  const group = svg.querySelector(".boxes");
  if (!group) return;
  fill(group, units, (unit) => unit.name, (unit) => box(svg, unit, choose), (made, unit) => update(made, unit, places.get(unit.name)));
}

function placed(units) {
  const rows = new Map(), places = new Map();
  for (const unit of units) {
    const row = rows.get(unit.level) ?? 0;
    rows.set(unit.level, row + 1);
    places.set(unit.name, [unit.level * (WIDE + APART) + 4, row * (HIGH + BETWEEN) + 4]);
  }
  return places;
}

function curves(svg, units, places) {
  const lines = drawn("g"), boxes = drawn("g", { class: "boxes" });
  let right = 0, bottom = 0;
  for (const unit of units) {
    const [x, y] = places.get(unit.name);
    right = Math.max(right, x + WIDE + 4); bottom = Math.max(bottom, y + HIGH + 4);
    for (const above of unit.above) {
      const [fromX, fromY] = places.get(above), middle = (fromX + WIDE + x) / 2;
      lines.append(drawn("path", {
        d: `M${fromX + WIDE} ${fromY + HIGH / 2}C${middle} ${fromY + HIGH / 2} ${middle} ${y + HIGH / 2} ${x} ${y + HIGH / 2}`,
        "data-from": above, "data-to": unit.name,
      }));
    }
  }
  svg.replaceChildren(lines, boxes);
  svg.setAttribute("width", right); svg.setAttribute("height", bottom); svg.setAttribute("viewBox", `0 0 ${right} ${bottom}`);
}

function box(svg, unit, choose) {
  const made = drawn("g", { class: "box", tabindex: 0, role: "button" });
  made.append(drawn("rect", { width: WIDE, height: HIGH, rx: 5 }), drawn("rect", { class: "heat", y: HIGH - 3, height: 3, width: 0 }),
    drawn("text", { x: 8, y: 16 }), drawn("text", { x: 8, y: 31, class: "quiet" }), drawn("text", { x: 8, y: 45, class: "quiet" }));
  made.onclick = () => choose(unit.name);
  made.onkeydown = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(unit.name); } };
  made.onmouseenter = made.onfocus = () => light(svg, unit.name, true);
  made.onmouseleave = made.onblur = () => light(svg, unit.name, false);
  return made;
}

function update(made, unit, [x, y]) {
  made.setAttribute("transform", `translate(${x} ${y})`);
  made.classList.toggle("down", !unit.up || Boolean(unit.halted));
  const corrected = unit.found ? unit.corrected / unit.found : 0, [, heat, name, first, second] = made.children;
  const rates = unit.rate_in === undefined ? "" : `${rate(unit.rate_in)} → ${rate(unit.rate_out)}`;
  name.textContent = unit.name.length > 26 ? `${unit.name.slice(0, 25)}…` : unit.name;
  first.textContent = `${rates}${corrected ? ` · ${share(corrected)} corrected` : ""}`;
  second.textContent = `K ${duration(unit.k)} · α ${unit.alpha.toFixed(2)}${unit.lag === null ? "" : ` · lag ${duration(unit.lag)}`}`;
  heat.setAttribute("width", Math.min(1, corrected) * WIDE);
  made.setAttribute("aria-label", `${unit.name} on ${unit.node}${unit.up ? "" : ", down"}: ${first.textContent}, ${second.textContent.replace("α", "alpha")}`);
}

function light(svg, name, on) {
  for (const path of svg.querySelectorAll("path")) if (path.dataset.from === name || path.dataset.to === name) path.classList.toggle("near", on);
}
