// Two comforts; the report says everything without them: sorting tables, and following one allocator through the
// figures by pointing at its name.
"use strict";
for (const heading of document.querySelectorAll("thead tr:last-child th")) {
  heading.addEventListener("click", () => {
    const body = heading.closest("table").tBodies[0];
    const column = heading.cellIndex;
    const up = heading.getAttribute("aria-sort") !== "ascending";
    const key = (row) => row.cells[column].dataset.v;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return up ? order : -order;
    });
    for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows);
  });
}
const allocator = (element) => {
  const of = element.closest && element.closest("[data-allocator], .plot [class]");
  if (!of) return null;
  if (of.dataset.allocator) return of.dataset.allocator;
  const name = /^[sf](\d+)$/.exec(of.getAttribute("class"));
  return name && name[1];
};
document.addEventListener("mouseover", (event) => {
  const index = allocator(event.target);
  if (index === null) delete document.body.dataset.focus;
  else document.body.dataset.focus = index;
});
