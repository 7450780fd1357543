// The form says how many cells the choice has; the page of a request looks whether it is decided.
"use strict";

const form = document.getElementById("ask");
if (form) {
  const said = document.getElementById("chosen"), closed = document.getElementById("closed");
  const most = BigInt(form.dataset.most), frontier = JSON.parse(form.dataset.frontier || "[]");
  const before = said.textContent;
  const update = () => {
    const checked = [...form.querySelectorAll("input[name=variable]:checked")];
    // coarser levels of what is chosen: they come with it, and make no cells
    const implied = checked.flatMap(box => JSON.parse(box.dataset.implies || "[]"));
    const boxes = checked.filter(box => !implied.includes(box.value)), names = boxes.map(box => box.value);
    const cells = boxes.reduce((product, box) => product * BigInt(box.dataset.cells), 1n);
    const number = `${cells.toLocaleString("en")} cell${cells === 1n ? "" : "s"}`;
    const tooMany = cells > most ? `: too many, at most ${most.toLocaleString("en")} are answered` : "";
    said.textContent = names.length ? `${names.join("*")} has ${number}${tooMany}.` : before;
    const within = frontier.find(element => element.every(name => names.includes(name) || implied.includes(name)));
    if (closed) closed.hidden = !within;
    if (within) closed.textContent = `This choice can no longer be released: it contains ${within.join("*")}.`;
  };
  form.addEventListener("change", update);
  // what a browser filled in again when going back
  window.addEventListener("pageshow", update);
}

const job = document.getElementById("job");
if (job) {
  const before = job.textContent;
  let wait = 500;
  const look = async () => {
    try {
      const answer = await fetch(`/api/jobs/${job.dataset.number}`, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      if ((await answer.json()).decision !== "pending") return location.reload();
      if (job.textContent !== before) job.textContent = before;
    } catch {
      job.textContent = "The server does not answer; it will be asked again.";
    }
    wait = Math.min(wait * 1.5, 10000);
    setTimeout(look, wait);
  };
  setTimeout(look, wait);
}
