// A scenario's own view: live, and wound back by the scrubber.
import { at, canvasOf, colours } from "./words.js";

const by = (id) => document.getElementById(id);
const MOST = 6000;
let script = null, fixed = null, frames = [], live = true;

export async function openScene(scene) {
  by("scene").hidden = scene === null;
  frames = []; script = null; live = true;
  if (scene === null) return;
  by("scene-title").textContent = scene.title;
  fixed = scene.fixed;
  script = await import("./scene-script.js");
  const answer = await fetch("film");
  if (answer.ok) {
    const before = await answer.json(), until = before.at(-1)?.t ?? -Infinity;
    frames = [...before, ...frames.filter((frame) => frame.t > until)];
  }
  show();
}

export function sceneIs(frame) {
  frames.push(frame);
  if (frames.length > MOST) frames.shift();
  show();
}

function show() {
  const scrub = by("scrub");
  scrub.max = Math.max(0, frames.length - 1);
  if (live) scrub.value = scrub.max;
  const frame = frames[scrub.value];
  if (!frame || !script) return;
  const [context, width, height] = canvasOf(by("stage"));
  script.draw(context, width, height, frame, fixed, colours());
  by("clock").textContent = at(frame.t * 1000);
  scrub.setAttribute("aria-valuetext", at(frame.t * 1000));
}

function liveIs(on) {
  live = on;
  by("play").setAttribute("aria-pressed", String(on));
  show();
}

by("scrub").oninput = () => liveIs(Number(by("scrub").value) >= frames.length - 1);
by("play").onclick = () => liveIs(!live);
addEventListener("resize", show);
