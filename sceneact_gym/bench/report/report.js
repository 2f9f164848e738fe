// Makes tables sortable and the list of episodes filterable. Without this script the page shows the same figures.
"use strict";

function value(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
  const text = cell.textContent.trim();
  if (text === "\u2013") return null;
  const number = Number(text.replace(/,/g, "").replace("\u2212", "-"));
  return text === "" || Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function sort(table, head, column) {
  // Figures are looked at from the best one on, names from A on.
  const first = head.classList.contains("n") ? "descending" : "ascending";
  const other = first === "descending" ? "ascending" : "descending";
  const order = head.getAttribute("aria-sort") === first ? other : first;
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
  const body = table.tBodies[0];
  const keyed = Array.from(body.rows, (row, place) => ({ row, place, key: value(row, column) }));
  keyed.sort((a, b) => {
    // What is not known comes last in either direction.
    if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
    return (order === "ascending" ? 1 : -1) * compare(a.key, b.key) || a.place - b.place;
  });
  body.append(...keyed.map((each) => each.row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, head, column));
    head.append(button);
  });
}

const form = document.querySelector(".filter");
if (form) {
  const rows = Array.from(document.querySelector("table.episodes").tBodies[0].rows);
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const chosen = Array.from(form.querySelectorAll("select"));
  // The selects are in the order of these columns: run, task, status. The reason stands in the status cell, too.
  const fields = rows.map((row) => [0, 1, 3].map((column) => row.cells[column].firstChild.textContent));
  const apply = () => {
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, place) => {
      const fits = chosen.every((select, field) => !select.value || select.value === fields[place][field]) &&
        words.every((word) => texts[place].includes(word));
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    form.querySelector("output").textContent = `${shown} of ${rows.length} episodes`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  apply();
}
