// The query space: a square for each sub-table in levels by dimension, and what is told of the one pointed at.
// A server's page asks the server what releasing it would do; an explorer works it out by what a search has kept.

const NAME = ["", "direct", "indirect", "unreleasable", "undecided", "open"];
const DIRECT = 1, INDIRECT = 2, UNRELEASABLE = 3, UNDECIDED = 4;
export const OPEN = 5;
const FILL = ["", "#0072b2", "#56b4e9", "#d55e00", "#f0e442"], MARK = { released: "#009e73", unreleasable: "#000" };
const GAP = 14, LEFT = 30, SHOWN = 6, WAIT = 120;
const KEYS = "Left and right: within a level. Up and down: one row. Page up and page down: one level. Home and end: the ends of a level. Enter: to what is told.";

const has = (t, v) => Boolean(t >> v & 1), isWithin = (part, t) => (part & t) === part;
const among = (t, some) => some.some(part => isWithin(part, t)), within = (t, some) => some.some(whole => isWithin(t, whole));
const minimal = some => [...new Set(some)].filter((t, _, all) => !all.some(other => other !== t && isWithin(other, t)));
const count = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

function add(parent, tag, words = "", attributes = {}) {
  const element = parent.appendChild(document.createElement(tag));
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  // a long name breaks after a star
  if (words) words.split(/(?<=\*)/).forEach(part => element.append(part, document.createElement("wbr")));
  return element;
}

// Sub-tables by number: bit v is variable v. With a variable come its coarser levels, and the finest names it; numbers
// of which that is not so are none.
class SubTables {
  constructor({ names, sizes, coarser, axes }) {
    this.names = names;
    this.sizes = sizes;
    this.coarser = coarser || names.map(() => 0);
    this.axes = axes || names.map((_, v) => 1 << v);
  }

  telling(t) { return this.coarser.reduce((left, told, v) => has(t, v) ? left & ~told : left, t); }

  variables(t) {
    const told = this.telling(t);
    return [...this.names.keys()].filter(v => has(told, v));
  }

  dimension(t) { return this.variables(t).length; }
  members(t) { return this.variables(t).map(v => this.names[v]); }
  cells(t) { return this.variables(t).reduce((product, v) => product * this.sizes[v], 1); }
  label(t) { return this.members(t).join("*") || "(total)"; }
  closed(v) { return 1 << v | this.coarser[v]; }
  number(names) { return names.reduce((t, name) => t | this.closed(this.names.indexOf(name)), 0); }

  // What has a variable more, a finer one too; some are no sub-tables, of which nothing holds
  above(t) { return this.names.flatMap((_, v) => has(t, v) ? [] : [t | this.closed(v)]); }

  // What has a variable less, or a coarser level instead
  below(t) { return this.variables(t).flatMap(v => this.coarserOf(v).map(level => t & ~this.axes[v] | level)); }
  coarserOf(v) { return [0, ...this.names.flatMap((_, u) => has(this.coarser[v], u) ? [this.closed(u)] : [])]; }
}

// The picture with its key and its panel, in an element. `source` has the statuses, and tells of a sub-table what is
// `said`, `lists` with their names, and `marks` of squares: what is `known` at once, the rest where it is asked. It says
// what the two marks are, and may say more `about` a sub-table.
export class QuerySpace {
  constructor(parent, record, source) {
    this.tables = new SubTables(record);
    this.source = source;
    this.statuses = null;
    this.told = new Map();
    this.marks = new Map();
    this.at = 0;
    this.places = [];
    this.tops = [];
    this.legend = add(parent, "ul", "", { class: "legend", "aria-label": "Key" });
    const both = add(parent, "div", "", { class: "space" });
    this.frame = add(both, "div", "", { id: "levels" });
    this.canvas = add(this.frame, "canvas", "", {
      id: "space", tabindex: 0, role: "application", "aria-busy": true, "aria-describedby": "keys effect",
      "aria-label": "Query space; the same as text follows below",
    });
    this.spot = add(this.frame, "div", "", { id: "spot" });
    this.panel = add(both, "section", "", { id: "effect", tabindex: 0, "aria-live": "polite", "aria-label": "Effect" });
    add(this.panel, "h2", "Effect");
    this.keys = add(this.panel, "p", KEYS, { id: "keys", class: "soft" });
    this.canvas.view = this;
  }

  async start() {
    try {
      await this.load();
    } catch (error) {
      add(this.panel, "p", `The query space could not be had (${error.message}).`);
      return;
    }
    this.show();
    this.listen();
    this.canvas.setAttribute("aria-busy", "false");
  }

  async load() {
    this.statuses = await this.source.statuses(this);
    this.told.clear();
    const top = this.tables.dimension(this.statuses.length - 1);
    this.levels = Array.from({ length: top + 1 }, () => []);
    this.statuses.forEach((status, t) => { if (status) this.levels[this.tables.dimension(t)].push(t); });
  }

  isPublic(t) { return this.statuses[t] > 0 && this.statuses[t] <= INDIRECT; }

  // The sub-tables of which something holds, and of none of those next to them
  frontier(holds, next) {
    return [...this.statuses.keys()].filter(t => holds(t) && !next(t).some(holds));
  }

  // The smallest sub-table with these variables: of levels that overlap it has one that tells both
  least(t) {
    if (this.statuses[t]) return t;
    return this.levels.flat().find(s => isWithin(t, s));
  }

  get released() { return this.frontier(t => this.isPublic(t), t => this.tables.above(t)); }
  get unreleasable() { return this.frontier(t => this.statuses[t] === UNRELEASABLE, t => this.tables.below(t)); }

  // Where squares are, and how they look: once more when their room or the colours change, as where there was none yet

  show() {
    this.showKey();
    this.layOut();
    this.draw();
  }

  rowsAt(size, width) {
    const fit = Math.max(1, Math.floor((width - LEFT) / size));
    return this.levels.reduce((rows, level) => rows + Math.ceil(level.length / fit), 0);
  }

  layOut() {
    const width = Math.max(200, this.frame.clientWidth), widest = Math.max(...this.levels.map(level => level.length));
    let cell = Math.min(40, Math.max(24, Math.floor((width - LEFT) / widest)));
    for (; cell > 8 && this.rowsAt(cell, width) * cell > 900; cell--);
    const columns = Math.max(1, Math.floor((width - LEFT) / cell));
    let y = 2;
    for (let d = this.levels.length - 1; d >= 0; d--) {
      this.tops[d] = y;
      const level = this.levels[d], across = Math.min(columns, level.length), left = LEFT + (width - LEFT - across * cell) / 2;
      level.forEach((t, i) => { this.places[t] = [left + i % across * cell, y + Math.floor(i / across) * cell]; });
      y += Math.ceil(level.length / across) * cell + GAP;
    }
    const ratio = window.devicePixelRatio || 1;
    this.cell = cell;
    Object.assign(this.canvas, { width: width * ratio, height: y * ratio });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${y}px` });
    this.canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  colour(name) { return getComputedStyle(this.canvas).getPropertyValue(name); }

  square(g, x, y, side, status) {
    g.fillStyle = FILL[status] || this.colour("--open");
    g.fillRect(x, y, side, side);
    if (side >= 11) this.glyph(g, x, y, side, status, status === DIRECT ? "#fff" : "#000");
  }

  glyph(g, x, y, side, status, ink) {
    const middle = [x + side / 2, y + side / 2], r = side / 5;
    g.strokeStyle = g.fillStyle = ink;
    g.lineWidth = Math.max(1.5, side / 12);
    g.beginPath();
    if (status === DIRECT) g.arc(...middle, r, 0, 7);
    if (status === INDIRECT) g.arc(...middle, r / 1.6, 0, 7);
    if (status === UNRELEASABLE) for (const s of [-1, 1]) { g.moveTo(middle[0] - r, middle[1] - s * r); g.lineTo(middle[0] + r, middle[1] + s * r); }
    if (status === UNDECIDED) { g.moveTo(middle[0] - r, middle[1]); g.lineTo(middle[0] + r, middle[1]); }
    status === DIRECT ? g.fill() : g.stroke();
  }

  mark(g, x, y, side, what) {
    const border = Math.max(2, side / 6);
    g.fillStyle = MARK[what];
    g.fillRect(x, y, side, side);
    g.fillStyle = "#fff";
    g.fillRect(x + border, y + border, side - 2 * border, side - 2 * border);
    if (side >= 11) this.glyph(g, x, y, side, what === "released" ? DIRECT : UNRELEASABLE, MARK[what]);
  }

  showKey() {
    this.legend.replaceChildren();
    const entries = [...NAME.entries()].slice(1).map(([status, name]) => [name, (g, view) => view.square(g, 1, 1, 20, status)]);
    for (const what of Object.keys(MARK)) entries.push([this.source.marked[what], (g, view) => view.mark(g, 1, 1, 20, what)]);
    for (const [name, paint] of entries) {
      const item = add(this.legend, "li"), swatch = add(item, "canvas", "", { class: "swatch", width: 22, height: 22, "aria-hidden": true });
      item.append(` ${name}`);
      paint(swatch.getContext("2d"), this);
    }
  }

  draw() {
    const g = this.canvas.getContext("2d"), side = this.cell > 12 ? this.cell - 3 : this.cell - 1;
    g.clearRect(0, 0, this.canvas.width, this.canvas.height);
    g.font = "13px system-ui, sans-serif";
    this.places.forEach(([x, y], t) => {
      this.square(g, x, y, side, this.statuses[t]);
      if (this.marks.has(t)) this.mark(g, x, y, side, this.marks.get(t));
    });
    g.fillStyle = this.colour("--soft");
    this.tops.forEach((y, d) => g.fillText(d, 2, y + Math.max(10, side / 2 + 5)));
    g.strokeStyle = this.colour("--ink");
    g.lineWidth = 2.5;
    g.strokeRect(this.places[this.at][0] - 2, this.places[this.at][1] - 2, side + 4, side + 4);
  }

  // What the panel says

  list(title, some) {
    if (!some.length) return;
    add(this.panel, "h3", title);
    const items = add(this.panel, "ul", "", { class: "names" });
    some.slice(0, SHOWN).forEach(t => add(items, "li", this.tables.label(t)));
    if (some.length > SHOWN) add(items, "li", `and ${(some.length - SHOWN).toLocaleString("en")} more`);
  }

  describe({ said = [], lists = [] }) {
    const t = this.at, about = this.source.about?.(t) ?? "";
    this.panel.replaceChildren();
    add(this.panel, "h2", this.tables.label(t));
    add(this.panel, "p", `${NAME[this.statuses[t]]}; dimension ${this.tables.dimension(t)}, ${count(this.tables.cells(t), "cell")}${about}`);
    said.forEach(words => add(this.panel, "p", words));
    lists.forEach(([title, some]) => this.list(title, some));
    this.panel.append(this.keys);
  }

  // Asking, after the pointer has rested

  async ask(t, signal) {
    if (!this.told.has(t)) this.told.set(t, await this.source.ask(this, t, signal));
    return this.told.get(t);
  }

  async tell() {
    const t = this.at;
    this.asked = new AbortController();
    try {
      const told = await this.ask(t, this.asked.signal);
      if (t !== this.at) return;
      this.marks = told.marks || new Map();
      this.describe(told);
      this.draw();
    } catch (error) {
      if (error.name !== "AbortError" && t === this.at) this.describe({ said: [`The effect could not be had (${error.message}).`] });
    }
  }

  go(t) {
    if (t === this.at && this.marks.size) return;
    this.at = t;
    this.marks = new Map();
    clearTimeout(this.timer);
    this.asked?.abort();
    this.draw();
    const known = this.source.known(this, t);
    if (known) return this.describe(known);
    if (!this.told.has(t)) this.describe({ said: ["Looking…"] });
    this.timer = setTimeout(() => this.tell(), this.told.has(t) ? 0 : WAIT);
  }

  // Moving

  under(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return this.places.findIndex(place => place && x >= place[0] && x < place[0] + this.cell && y >= place[1] && y < place[1] + this.cell);
  }

  nearest(d) {
    const [x] = this.places[this.at], far = t => Math.abs(this.places[t][0] - x);
    return this.levels[d].reduce((best, t) => far(t) < far(best) ? t : best, this.levels[d][0]);
  }

  // The nearest square in the row of squares above (-1) or below (1), of this level or the next
  inRow(side) {
    const [x, y] = this.places[this.at];
    let best = this.at, least = Infinity;
    this.places.forEach(([left, top], t) => {
      const far = side * (top - y) * 1e4 + Math.abs(left - x);
      if (side * (top - y) > 0 && far < least) [best, least] = [t, far];
    });
    return best;
  }

  moved(key) {
    const d = this.tables.dimension(this.at), level = this.levels[d], i = level.indexOf(this.at);
    if (key === "ArrowLeft") return level[Math.max(0, i - 1)];
    if (key === "ArrowRight") return level[Math.min(level.length - 1, i + 1)];
    if (key === "ArrowUp") return this.inRow(-1);
    if (key === "ArrowDown") return this.inRow(1);
    if (key === "PageUp") return this.nearest(Math.min(this.levels.length - 1, d + 1));
    if (key === "PageDown") return this.nearest(Math.max(0, d - 1));
    return { Home: level[0], End: level[level.length - 1] }[key];
  }

  pressed(event) {
    if (event.key === "Enter") return this.panel.focus();
    const t = this.moved(event.key);
    if (t === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (t !== this.at) this.go(t);
    this.spot.style.top = `${this.places[this.at][1]}px`;
    this.spot.scrollIntoView({ block: "nearest" });
  }

  listen() {
    this.canvas.addEventListener("pointermove", event => { const t = this.under(event); if (t >= 0 && t !== this.at) this.go(t); });
    this.canvas.addEventListener("pointerdown", event => { const t = this.under(event); if (t >= 0) this.go(t); });
    this.canvas.addEventListener("keydown", event => this.pressed(event));
    new ResizeObserver(() => this.show()).observe(this.frame);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show());
  }
}

// What releasing a sub-table would do: how many sub-tables are newly so, both frontiers after it, what is released with
// it, and the minimal ones that can be no more.
export function effect(view, { newly, frontiers, released, unreleasable }) {
  const marks = new Map(), without = (some, others) => some.filter(t => !others.includes(t));
  if (unreleasable.length) view.statuses.forEach((status, t) => { if (status >= UNDECIDED && among(t, unreleasable)) marks.set(t, "unreleasable"); });
  released.forEach(t => marks.set(t, "released"));
  const now = view.released, never = view.unreleasable;
  newly ??= { released: released.length, unreleasable: marks.size - released.length };
  return {
    said: [`Releasing it would make ${count(newly.released, "sub-table")} released and ${count(newly.unreleasable, "sub-table")} unreleasable.`],
    lists: [
      ["Joins the released frontier", without(frontiers.released, now)],
      ["Leaves the released frontier", without(now, frontiers.released)],
      ["Joins the unreleasable frontier", without(frontiers.unreleasable, never)],
      ["Leaves the unreleasable frontier", without(never, frontiers.unreleasable)],
      ["Would be released", released],
    ],
    marks,
  };
}

// What a search has kept: by that alone is told what a sub-table adds and excludes.
//   released   the frontier; conflicts: sub-tables that are not to be known together, and how narrow a cell then is
//   against    what may not be released beside it for another reason, which is named
class Kept {
  marked = { released: "known with it", unreleasable: "excluded with it" };

  constructor(record) { this.record = record; }

  statuses() { return this.record.statuses; }
  known() { return null; }

  about(t) {
    const width = this.record.widths[t];
    return width === null ? "" : `, critical width ${width.toLocaleString("en")}`;
  }

  ask(view, t) {
    const told = { [DIRECT]: this.direct, [INDIRECT]: this.indirect, [UNRELEASABLE]: this.excluded }[view.statuses[t]] || this.larger;
    const found = told.call(this, view, t);
    if (this.record.in_part.includes(t) && !view.isPublic(t)) found.said.unshift("It is public with suppressed cells.");
    return found;
  }

  // The minimal sub-tables with which a conflict would be known beside these
  excludes(view, released) {
    const left = this.record.conflicts.map(one => one.of.filter(t => !within(t, released)));
    return minimal(left.filter(rest => rest.length).map(rest => view.least(rest.reduce((all, t) => all | t, 0))));
  }

  direct(view, t) {
    const { released, against } = this.record, others = released.filter(one => one !== t);
    const alone = view.statuses.flatMap((status, s) => status && isWithin(s, t) && !within(s, others) ? [s] : []);
    const still = this.excludes(view, others), gone = this.excludes(view, released).filter(one => !among(one, still));
    const closed = view.statuses.flatMap((status, s) => status === UNRELEASABLE && among(s, gone) && !among(s, [...still, ...against.map(([part]) => part)]) ? [s] : []);
    const said = [`It is public, and with it ${count(alone.length, "sub-table")} that no other one on the released frontier has.`];
    said.push(closed.length ? `It excludes ${count(closed.length, "sub-table")}: what is kept against these needs it.` : "As far as what is kept shows it excludes nothing alone.");
    const marks = new Map([...closed.map(s => [s, "unreleasable"]), ...alone.map(s => [s, "released"])]);
    return { said, lists: [["Known by it alone", alone.reverse()], ["Least excluded", gone]], marks };
  }

  indirect(view, t) {
    return { said: ["It is public, within what is on the released frontier."], lists: [["Within", this.record.released.filter(one => isWithin(t, one))]] };
  }

  excluded(view, t) {
    const { released, conflicts, against, min_width } = this.record, known = [...released, t];
    const proofs = conflicts.filter(one => one.of.every(part => within(part, known))).sort((one, other) => one.of.length - other.of.length);
    const said = against.filter(([part]) => isWithin(part, t)).map(([, why]) => why), lists = [];
    if (proofs.length) {
      const [first] = proofs, others = proofs.length > 1 ? ` ${count(proofs.length, "proof")} say so; this is the one of fewest sub-tables.` : "";
      said.push(`Proven: with the sub-tables below an intruder knows a cell at risk to within ${count(first.width, "record")}, and ${min_width.toLocaleString("en")} are required.${others}`);
      lists.push(["Not to be known together", first.of]);
    }
    return { said, lists };
  }

  larger(view, t) {
    const { released, undecided, against } = this.record, known = [...released, t];
    const more = view.statuses.flatMap((status, s) => status && isWithin(s, t) && !view.isPublic(s) ? [s] : []).reverse();
    const excludes = minimal([...this.excludes(view, known), ...against.map(([part]) => part)]);
    const frontiers = { released: [...released.filter(one => !isWithin(one, t)), t], unreleasable: excludes };
    const told = effect(view, { frontiers, released: more, unreleasable: excludes.filter(one => !among(one, view.unreleasable)) });
    const asked = "The search evaluated it, or one within it, and found no proof either way.";
    told.said.unshift(among(t, undecided) ? asked : "Nothing that is kept of the search speaks against it.", "Whether it may be released takes a question to the criterion, which sdc why asks.");
    told.said.push("More may be unreleasable then than what is kept shows.");
    return told;
  }
}

// What an explorer shows, in an element.
function explore(element, record) {
  return new QuerySpace(element, record, new Kept(record)).start();
}

// In a notebook, apart from its page by a shadow root: neither has the style or the names of the other.
export default {
  render({ model, el }) {
    const root = el.attachShadow({ mode: "open" }), record = model.get("record");
    el.dataset.lmSuppressShortcuts = "true"; // arrow keys are not the notebook's here
    add(root, "style").textContent = model.get("sheet");
    const page = add(root, "div", "", { class: "explorer" });
    if (record.statuses) explore(add(page, "div", "", { class: "query-space" }), record);
    // made by the page's own template, which escapes all names
    add(page, "div").innerHTML = model.get("text");
  },
};
