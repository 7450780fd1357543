// The query space: a square for each sub-table in levels by dimension, and what releasing the one pointed at would do.
// Of a variable with coarser levels a sub-table has these too, and is named by the finest; other numbers are none.
"use strict";

const canvas = document.getElementById("space"), panel = document.getElementById("effect");
const names = JSON.parse(canvas.dataset.names), sizes = JSON.parse(canvas.dataset.sizes), K = names.length;
const NAME = ["", "direct", "indirect", "unreleasable", "undecided", "open"], OPEN = 5, UNRELEASABLE = 3;
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name);
const FILL = ["", "#0072b2", "#56b4e9", "#d55e00", "#f0e442", colour("--open")];
const MARK = { released: "#009e73", unreleasable: "#000" };
const GAP = 14, LEFT = 30, SHOWN = 6, WAIT = 120;

const coarser = JSON.parse(canvas.dataset.coarser || "null") || names.map(() => 0);
const axes = JSON.parse(canvas.dataset.axes || "null") || names.map((_, v) => 1 << v);
const has = (t, v) => Boolean(t >> v & 1);
const telling = t => coarser.reduce((left, told, v) => has(t, v) ? left & ~told : left, t);
const dimension = t => { let n = 0; for (t = telling(t); t; t &= t - 1) n++; return n; };
const members = t => names.filter((_, v) => has(telling(t), v));
const label = t => members(t).join("*") || "(total)";
const closed = v => 1 << v | coarser[v];
const bits = list => list.reduce((t, name) => t | closed(names.indexOf(name)), 0);
const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
const D = dimension(2 ** K - 1), levels = Array.from({ length: D + 1 }, () => []);

let statuses = null, version = "", effects = new Map(), marks = new Map(), at = 0, cell = 0, places = [], tops = [], columns = 1;
let timer = 0, asked = null;

// Where squares are, and how they look

function rowsAt(size, width) {
  const fit = Math.max(1, Math.floor((width - LEFT) / size));
  return levels.reduce((rows, level) => rows + Math.ceil(level.length / fit), 0);
}

function layOut() {
  const width = Math.max(200, canvas.parentElement.clientWidth);
  const widest = Math.max(...levels.map(level => level.length));
  cell = Math.min(40, Math.max(24, Math.floor((width - LEFT) / widest)));
  for (; cell > 8 && rowsAt(cell, width) * cell > 900; cell--);
  columns = Math.max(1, Math.floor((width - LEFT) / cell));
  let y = 2;
  for (let d = D; d >= 0; d--) {
    tops[d] = y;
    const across = Math.min(columns, levels[d].length), left = LEFT + (width - LEFT - across * cell) / 2;
    levels[d].forEach((t, i) => { places[t] = [left + i % across * cell, y + Math.floor(i / across) * cell]; });
    y += Math.ceil(levels[d].length / across) * cell + GAP;
  }
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = y * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${y}px`;
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}

function square(g, x, y, side, status) {
  g.fillStyle = FILL[status];
  g.fillRect(x, y, side, side);
  if (side >= 11) glyph(g, x, y, side, status, status === 1 ? "#fff" : "#000");
}

function glyph(g, x, y, side, status, ink) {
  const middle = [x + side / 2, y + side / 2], r = side / 5;
  g.strokeStyle = g.fillStyle = ink;
  g.lineWidth = Math.max(1.5, side / 12);
  g.beginPath();
  if (status === 1) g.arc(...middle, r, 0, 7);
  if (status === 2) g.arc(...middle, r / 1.6, 0, 7);
  if (status === 3) for (const s of [-1, 1]) { g.moveTo(middle[0] - r, middle[1] - s * r); g.lineTo(middle[0] + r, middle[1] + s * r); }
  if (status === 4) { g.moveTo(middle[0] - r, middle[1]); g.lineTo(middle[0] + r, middle[1]); }
  status === 1 ? g.fill() : g.stroke();
}

// Only what is open or undecided gets one, so that it may cover the square
function mark(g, x, y, side, what) {
  const border = Math.max(2, side / 6);
  g.fillStyle = MARK[what];
  g.fillRect(x, y, side, side);
  g.fillStyle = "#fff";
  g.fillRect(x + border, y + border, side - 2 * border, side - 2 * border);
  if (side >= 11) glyph(g, x, y, side, what === "released" ? 1 : UNRELEASABLE, MARK[what]);
}

function draw() {
  const g = canvas.getContext("2d"), side = cell > 12 ? cell - 3 : cell - 1;
  g.clearRect(0, 0, canvas.width, canvas.height);
  g.font = "13px system-ui, sans-serif";
  places.forEach(([x, y], t) => {
    square(g, x, y, side, statuses[t]);
    if (marks.has(t)) mark(g, x, y, side, marks.get(t));
  });
  g.fillStyle = colour("--soft");
  tops.forEach((y, d) => g.fillText(d, 2, y + Math.max(10, side / 2 + 5)));
  g.strokeStyle = colour("--ink");
  g.lineWidth = 2.5;
  g.strokeRect(places[at][0] - 2, places[at][1] - 2, side + 4, side + 4);
}

// What the panel says

function add(tag, words, parent = panel) {
  const element = parent.appendChild(document.createElement(tag));
  // a long name breaks after a star
  if (words) words.split(/(?<=\*)/).forEach(part => element.append(part, document.createElement("wbr")));
  return element;
}

function list(title, subtables) {
  if (!subtables.length) return;
  add("h3", title);
  const items = add("ul", "");
  items.className = "names";
  subtables.slice(0, SHOWN).forEach(t => add("li", label(t), items));
  if (subtables.length > SHOWN) add("li", `and ${(subtables.length - SHOWN).toLocaleString("en")} more`, items);
}

function describe(effect, note) {
  const keys = document.getElementById("keys");
  panel.replaceChildren();
  add("h2", label(at));
  const cells = members(at).reduce((product, name) => product * sizes[names.indexOf(name)], 1);
  add("p", `${NAME[statuses[at]]}; dimension ${dimension(at)}, ${count(cells, "cell")}`);
  if (statuses[at] !== OPEN) note = statuses[at] <= 2 ? "It is public." : "It is not answered.";
  if (note) add("p", note);
  else if (effect) tell(effect);
  panel.append(keys);
}

function tell(effect) {
  const safe = { true: "It could be released.", false: "It would break the criterion.", null: "Whether it could be released is not decided." };
  add("p", safe[effect.is_safe]);
  add("p", `Releasing it would make ${count(effect.newly.released, "sub-table")} released and ${count(effect.newly.unreleasable, "sub-table")} unreleasable.`);
  if (effect.looked_at < effect.of) {
    add("p", `Looked at ${effect.looked_at.toLocaleString("en")} of ${effect.of.toLocaleString("en")} open sub-tables; of the others nothing is known.`);
  }
  const after = effect.frontiers.released.map(bits), after_u = effect.frontiers.unreleasable.map(bits);
  const now = frontier(t => statuses[t] && statuses[t] <= 2, above), now_u = frontier(t => statuses[t] === UNRELEASABLE, below);
  list("Joins the released frontier", after.filter(t => !now.includes(t)));
  list("Leaves the released frontier", now.filter(t => !after.includes(t)));
  list("Joins the unreleasable frontier", after_u.filter(t => !now_u.includes(t)));
  list("Leaves the unreleasable frontier", now_u.filter(t => !after_u.includes(t)));
  list("Would be released", effect.released.map(bits));
}

// The sub-tables of which something holds, and of none of those next to them
function frontier(holds, next) {
  return [...statuses.keys()].filter(t => holds(t) && !next(t).some(holds));
}

// What has a variable more, a finer one too; some are no sub-tables, of which nothing holds
const above = t => names.flatMap((_, v) => has(t, v) ? [] : [t | closed(v)]);

// What has a variable less, or a coarser level instead
const below = t => names.flatMap((_, v) => has(telling(t), v) ? coarserOf(v).map(level => t & ~axes[v] | level) : []);
const coarserOf = v => [0, ...names.flatMap((_, u) => has(coarser[v], u) ? [closed(u)] : [])];

function marked(effect) {
  const found = new Map(), closing = effect.unreleasable.map(bits);
  if (effect.status !== "open") return found;
  if (closing.length) statuses.forEach((s, t) => { if (s >= 4 && closing.some(u => (u & t) === u)) found.set(t, "unreleasable"); });
  effect.released.map(bits).forEach(t => found.set(t, "released"));
  return found;
}

// Asking

async function load() {
  const answer = await fetch("/api/operator/statuses");
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  version = answer.headers.get("X-Version");
  statuses = new Uint8Array(await answer.arrayBuffer());
  if (!levels[0].length) statuses.forEach((status, t) => { if (status) levels[dimension(t)].push(t); });
  effects.clear();
  document.getElementById("stale").hidden = version === canvas.dataset.version;
}

async function ask(t, signal) {
  if (effects.has(t)) return effects.get(t);
  const answer = await fetch(`/api/operator/effect?variables=${members(t).map(encodeURIComponent).join(",")}`, { signal });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const effect = await answer.json();
  if (String(effect.version) !== version) await load();
  effects.set(t, effect);
  return effect;
}

async function show() {
  const t = at;
  asked = new AbortController();
  try {
    const effect = await ask(t, asked.signal);
    if (t !== at) return;
    marks = marked(effect);
    describe(effect);
    draw();
  } catch (error) {
    if (error.name !== "AbortError" && t === at) describe(null, `The effect could not be had (${error.message}).`);
  }
}

function go(t) {
  if (t === at && marks.size) return;
  at = t;
  marks = new Map();
  clearTimeout(timer);
  if (asked) asked.abort();
  draw();
  if (statuses[t] !== OPEN) return describe(null);
  if (!effects.has(t)) describe(null, "Looking…");
  timer = setTimeout(show, effects.has(t) ? 0 : WAIT);
}

// Moving

function under(event) {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  return places.findIndex(place => place && x >= place[0] && x < place[0] + cell && y >= place[1] && y < place[1] + cell);
}

function nearest(d) {
  const [x] = places[at];
  return levels[d].reduce((best, t) => Math.abs(places[t][0] - x) < Math.abs(places[best][0] - x) ? t : best, levels[d][0]);
}

// The nearest square in the row of squares above (-1) or below (1), of this level or the next
function inRow(side) {
  const [x, y] = places[at];
  let best = at, least = Infinity;
  places.forEach(([left, top], t) => {
    const far = side * (top - y) * 1e4 + Math.abs(left - x);
    if (side * (top - y) > 0 && far < least) [best, least] = [t, far];
  });
  return best;
}

function moved(key) {
  const d = dimension(at), level = levels[d], i = level.indexOf(at);
  if (key === "ArrowLeft") return level[Math.max(0, i - 1)];
  if (key === "ArrowRight") return level[Math.min(level.length - 1, i + 1)];
  if (key === "ArrowUp") return inRow(-1);
  if (key === "ArrowDown") return inRow(1);
  if (key === "PageUp") return nearest(Math.min(D, d + 1));
  if (key === "PageDown") return nearest(Math.max(0, d - 1));
  return { Home: level[0], End: level[level.length - 1] }[key];
}

function start() {
  document.querySelectorAll(".swatch").forEach(swatch => {
    const g = swatch.getContext("2d");
    square(g, 1, 1, 20, Number(swatch.dataset.status || OPEN));
    if (swatch.dataset.mark) mark(g, 1, 1, 20, swatch.dataset.mark);
  });
  layOut();
  draw();
  canvas.addEventListener("pointermove", event => { const t = under(event); if (t >= 0 && t !== at) go(t); });
  canvas.addEventListener("pointerdown", event => { const t = under(event); if (t >= 0) go(t); });
  canvas.addEventListener("keydown", event => {
    const t = moved(event.key);
    if (t === undefined) return;
    event.preventDefault();
    if (t !== at) go(t);
    const y = canvas.getBoundingClientRect().top + places[at][1];
    if (y < innerHeight * 0.4 || y > innerHeight - 60) window.scrollBy(0, y - innerHeight * 0.6);
  });
  canvas.setAttribute("aria-busy", "false");
  new ResizeObserver(() => { layOut(); draw(); }).observe(canvas.parentElement);
}

load().then(start, error => add("p", `The query space could not be had (${error.message}).`));
