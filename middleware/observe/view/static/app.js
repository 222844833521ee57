// The page: keeps a WebSocket to the server, and gives each part what is new for it. Nothing is ever sent.
import { showGraph } from "./graph.js";
import { showLine } from "./timeline.js";
import { openScene, sceneIs } from "./scene.js";
import { at, duration, element, fill, rate, share } from "./words.js";

const by = (id) => document.getElementById(id);
const shown = { mesh: null, results: null, now: 0 };
let dirty = true; // whether the page is behind what is known: it draws at most once a frame of the screen

function connect(wait = 250) {
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live${location.search}`);
  socket.binaryType = "arraybuffer";
  const text = new TextDecoder();
  socket.onopen = () => link("live", "live");
  socket.onmessage = (message) => {
    wait = 250;
    const news = JSON.parse(text.decode(message.data));
    if (news.hello) openScene(news.hello.scene);
    if (news.scene) sceneIs(news.scene);
    if (news.mesh) shown.mesh = news.mesh;
    if (news.results) shown.results = news.results;
    shown.now = news.now ?? shown.now;
    if (!dirty) { dirty = true; requestAnimationFrame(draw); }
  };
  socket.onclose = (event) => {
    link("lost", event.code === 1008 ? event.reason || "not admitted" : "no answer: the watching has ended, or begins again");
    setTimeout(() => connect(Math.min(2 * wait, 4000)), wait);
  };
}

function link(state, words) {
  const pill = by("link");
  if (pill.textContent !== words) pill.textContent = words;
  pill.dataset.state = state;
}

function draw() {
  dirty = false;
  if (shown.mesh) mesh(shown.mesh);
  if (shown.results) results(shown.results);
  if (shown.results) showLine(by("timeline"), by("lead"), shown.results.shown, shown.now);
}

function mesh(mesh) {
  if (by("title").textContent !== mesh.title) by("title").textContent = mesh.title;
  document.title = `${mesh.title}: Slackline, live`;
  fill(by("nodes"), mesh.nodes, (node) => node.address, () => element("li"), (item, node) => {
    item.dataset.state = node.up ? "up" : "down";
    const busy = node.busy === null ? "" : `, ${share(node.busy)} busy`;
    const waits = node.waits.length ? `, waits for ${node.waits.join(", ")}` : "";
    const slow = node.slow.length ? `, slow: ${node.slow.join(", ")}` : "";
    text(item, node.up ? `${node.name}: up${busy}${waits}${slow}` : `${node.name}: down since ${at(node.since)}`);
    item.title = node.address;
  });
  text(by("notices"), mesh.notices.join(" · "));
  showGraph(by("graph"), mesh.units, unitDetail);
  leftOut(mesh.units);
}

function results({ counts, shown: latest }) {
  fill(by("counts"), Object.entries(counts), ([name]) => name, () => element("li"), (item, [name, count]) => {
    const corrected = (count.revised ?? 0) + (count.withdrawn ?? 0);
    text(item, `${last(name)} ${(count.found ?? 0).toLocaleString("en")} · ${count.final ?? 0} final` + (corrected ? ` · ${corrected} corrected` : ""));
    item.title = name;
  });
  fill(by("found"), [...latest].reverse(), key, row, fillRow);
  const news = latest.filter((one) => one.state === "final" || one.state === "withdrawn").at(-1);
  if (news && Date.now() - spoken > 3000) { // for ears: not more than one every three seconds
    spoken = Date.now();
    text(by("heard"), `${last(news.type)} ${news.state}`);
  }
}
let spoken = 0;

function row(one) {
  const open = element("button", { type: "button", className: "link" });
  open.onclick = () => resultDetail(key(one));
  const cells = Array.from({ length: 4 }, () => element("td"));
  const head = element("th", { scope: "row" });
  head.append(open);
  cells[2].className = "fields"; cells[3].className = "number";
  const made = element("tr");
  made.append(cells[0], head, ...cells.slice(1));
  return made;
}

function fillRow(made, one) {
  made.dataset.row = one.state;
  const [state, head, when, what, wait] = made.children;
  state.className = one.state;
  text(state, one.state);
  text(head.firstChild, last(one.type));
  text(when, at(one.time));
  text(what, fields(one.what));
  const end = one.final ?? (one.state === "withdrawn" ? one.changed : null);
  text(wait, end === null ? "…" : duration(end - one.early));
}

function leftOut(units) {
  const lost = units.filter((unit) => unit.late || unit.failed || unit.halted);
  if (!lost.length) { text(by("left-out"), "Nothing: no detector has met an event that came too late, or failed at one."); return; }
  const table = by("left-out").querySelector("tbody") ?? leftTable();
  fill(table, lost, (unit) => unit.name, () => { const made = element("tr"); made.append(element("th", { scope: "row" }), ...Array.from({ length: 4 }, () => element("td"))); return made; },
    (made, unit) => [unit.name, unit.node, `${unit.late} late`, `${unit.failed} failed`, unit.halted ? `has stopped: ${unit.halted}` : ""].forEach((words, place) => text(made.children[place], words)));
}

function leftTable() {
  const table = element("table"), body = element("tbody");
  table.append(body);
  by("left-out").replaceChildren(table, element("p", { className: "quiet", textContent: "Each event, with the reason: slackline late list STATE-FOLDER" }));
  return body;
}

async function unitDetail(name) {
  const unit = shown.mesh.units.find((each) => each.name === name);
  const lines = [
    `node ${unit.node}${unit.up ? "" : " (down)"}, level ${unit.level}`,
    `reads ${unit.reads.join(", ")}`, `publishes ${unit.publishes.join(", ")}`,
    `K ${duration(unit.k)}, alpha ${unit.alpha.toFixed(2)}, ${unit.waiting} events wait in its buffer`,
    unit.found === undefined ? "" : `${unit.received.toLocaleString("en")} events in, ${unit.found.toLocaleString("en")} results, ${unit.corrected.toLocaleString("en")} corrections`,
    unit.lag === null ? "nothing is final yet" : `final up to ${duration(unit.lag)} behind the clock`,
  ].filter(Boolean);
  show(name, [list(lines), element("h3", { textContent: "What it waits for" }), element("pre", { textContent: "…" })]);
  try {
    const answer = await fetch(`waiting?type=${encodeURIComponent(unit.publishes[0])}`);
    by("detail-body").querySelector("pre").textContent = (await answer.json()).join("\n");
  } catch { by("detail-body").querySelector("pre").textContent = "the server does not answer"; }
}

function resultDetail(wanted) {
  const one = shown.results.shown.find((each) => key(each) === wanted);
  if (!one) return;
  const history = [
    ...one.before.map((what) => `said before: ${fields(what)}`),
    `${one.state === "withdrawn" ? "said when it was withdrawn" : "says"}: ${fields(one.what)}`,
    `early at ${at(one.early)}` + (one.delay === null ? "" : `, ${duration(one.delay)} after it happened`),
    one.corrections ? `corrected ${one.corrections} times, last at ${at(one.changed)}` : "never corrected",
    one.final === null ? (one.state === "withdrawn" ? "withdrawn: it will never be final" : "not final yet") : `final at ${at(one.final)}, ${duration(one.final - one.early)} after it came early`,
  ];
  show(`${last(one.type)} at ${at(one.time)}`, [
    list(history), element("h3", { textContent: "Why" }),
    element("p", { textContent: "What it rests on, down to the raw events, from the log of its node (--log) or from a trace (--trace):" }),
    element("pre", { textContent: `slackline why ${one.type} id=${one.id} --scenario ${shown.mesh?.scenario || "SCENARIO"}` }),
  ]);
}

function show(title, parts) {
  by("detail-title").textContent = title;
  by("detail-body").replaceChildren(...parts);
  if (!by("detail").open) by("detail").showModal();
}

function list(lines) {
  const made = element("ul");
  made.append(...lines.map((line) => element("li", { textContent: line })));
  made.style.display = "block";
  return made;
}

const key = (one) => `${one.source} ${one.id} ${one.early}`;
const last = (name) => name.split(".").at(-1);
const fields = (what) => Object.entries(what).map(([name, value]) => `${name} ${value}`).join(", ");
const text = (target, words) => { if (target.textContent !== words) target.textContent = words; };

draw();
connect();
