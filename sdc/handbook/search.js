// Parts of the page that have all the words typed: first those with the phrase in their heading, then most words there.
"use strict";
{
  const MOST = 20, AROUND = 70;
  const parts = [...document.querySelectorAll("section > h2, section h3, section h4, tr[id]")].map((heading) => {
    const page = heading.closest("section"), of = page.querySelector("h2");
    const id = heading.id || page.id, row = heading.tagName === "TR";
    const title = row ? heading.cells[0].textContent : heading.textContent;
    let text = row ? heading.textContent : "";
    let next = row ? null : heading.nextElementSibling;
    for (; next && !/^H[234]$/.test(next.tagName); next = next.nextElementSibling) {
      text += next.className === "part" || next.querySelector("tr[id]") ? "" : ` ${next.textContent}`;
    }
    const name = heading === of ? title : `${of.textContent}: ${title}`;
    return { id, name, row, head: title.toLowerCase(), text: `${title} ${text}`.replace(/\s+/g, " ") };
  });
  const count = (text, word) => text.split(word).length - 1;
  const field = document.getElementById("search-words");
  const list = document.getElementById("search-found"), said = document.getElementById("search-said");

  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (part) => words.every((word) => part.text.toLowerCase().includes(word));
    const phrase = words.join(" ");
    const rank = (part) => [
      part.head.includes(phrase) ? (part.row ? 1 : 2) : 0,
      words.filter((word) => part.head.includes(word)).length,
      words.reduce((sum, word) => sum + count(part.text.toLowerCase(), word), 0),
    ];
    const found = !words.length ? [] : parts.filter(has).map((part) => ({ ...part, rank: rank(part) }));
    const differ = (one, other) => other.rank.map((value, i) => value - one.rank[i]).find(Boolean) ?? 0;
    found.sort(differ);
    const have = found.length === 1 ? "1 part has" : `${found.length} parts have`;
    const more = found.length > MOST ? `, the first ${MOST}` : "";
    said.textContent = !words.length ? "" : found.length
      ? `${have} ${words.join(" and ")}${more}:`
      : `No part has ${words.join(" and ")}.`;
    list.replaceChildren(...found.slice(0, MOST).map((part) => shown(part, words[0])));
  };

  const shown = (part, word) => {
    const item = document.createElement("li"), link = document.createElement("a"), line = document.createElement("span");
    const at = part.text.toLowerCase().indexOf(word), from = Math.max(0, at - AROUND);
    link.setAttribute("href", `#${part.id}`);
    link.textContent = part.name;
    line.textContent = `${from ? "… " : ""}${part.text.slice(from, at + AROUND)} …`;
    item.append(link, document.createElement("br"), line);
    return item;
  };

  field.closest("[role=search]").hidden = false;
  field.addEventListener("input", search);
}
