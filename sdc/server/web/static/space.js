// The query space of a server: statuses and effects are asked of it, and may be of a later version than the page.
import { OPEN, QuerySpace, effect } from "./query_space.js";

const place = document.getElementById("query-space");

class Asked {
  marked = { released: "would be released", unreleasable: "would be unreleasable" };

  async statuses() {
    const answer = await fetch("/api/operator/statuses");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    this.version = answer.headers.get("X-Version");
    document.getElementById("stale").hidden = this.version === place.dataset.version;
    return new Uint8Array(await answer.arrayBuffer());
  }

  known(view, t) {
    if (view.statuses[t] === OPEN) return null;
    return { said: [view.isPublic(t) ? "It is public." : "It is not answered."] };
  }

  async ask(view, t, signal) {
    const { tables } = view;
    const answer = await fetch(`/api/operator/effect?variables=${tables.members(t).map(encodeURIComponent).join(",")}`, { signal });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const found = await answer.json(), numbers = some => some.map(names => tables.number(names));
    if (String(found.version) !== this.version) await view.load();
    return this.known(view, t) || this.described(view, found, numbers);
  }

  described(view, found, numbers) {
    const frontiers = { released: numbers(found.frontiers.released), unreleasable: numbers(found.frontiers.unreleasable) };
    const described = effect(view, { newly: found.newly, frontiers, released: numbers(found.released), unreleasable: numbers(found.unreleasable) });
    const safe = { true: "It could be released.", false: "It would break the criterion.", null: "Whether it could be released is not decided." };
    described.said.unshift(safe[found.is_safe]);
    if (found.looked_at < found.of) {
      described.said.push(`Looked at ${found.looked_at.toLocaleString("en")} of ${found.of.toLocaleString("en")} open sub-tables; of the others nothing is known.`);
    }
    return described;
  }
}

new QuerySpace(place, JSON.parse(place.dataset.record), new Asked()).start();
