// What ci/papers_report.sh does on the page; ci/report.sh runs it when the page is drawn, with `troubles` to fill.
"use strict";
const check = (what, is) => {
  if (!is) troubles.push(`papers: ${what}`);
};
for (const figure of document.querySelectorAll("svg.plot")) {
  const name = figure.getAttribute("aria-label");
  for (const shape of figure.querySelectorAll("polyline, polygon, line, circle, rect, text")) {
    for (const attribute of shape.attributes) {
      if (/NaN|Infinity/.test(attribute.value)) troubles.push(`not a number in ${name}: ${attribute.name}`);
    }
  }
  check(`nothing to point at in ${name}`, figure.querySelector("[data-at]"));
}

// Filtering.
const rows = [...document.querySelectorAll("[data-verdict]")];
check("there are verdicts", rows.length > 20);
for (const button of document.querySelectorAll("[data-filter]")) {
  button.click();
  const wanted = button.dataset.filter;
  const shown = rows.filter((row) => !row.hidden && row.getClientRects().length > 0);
  const expected = rows.filter((row) => !wanted || row.dataset.verdict === wanted);
  check(`the filter "${wanted}" shows its verdicts and no others`, shown.length === expected.length && shown.every((row) => expected.includes(row)));
  check(`the button "${wanted}" counts ${expected.length}`, button.textContent.includes(`(${expected.length})`));
}
document.querySelector('[data-filter=""]').click();

// Sorting: by the last column of numbers, up and down.
const table = document.querySelector("#answer ~ div table, h3 + div table");
const heading = [...table.tHead.rows[0].cells].find((cell) => cell.textContent.startsWith("allocate"));
const column = () => [...table.tBodies[0].rows].map((row) => row.cells[heading.cellIndex].dataset.v).filter((value) => value !== undefined).map(Number);
heading.removeAttribute("aria-sort");
heading.click();
const up = column();
heading.click();
const down = column();
check("a table has numbers to sort", up.length > 5);
check("a click sorts upwards", up.every((value, at) => at === 0 || up[at - 1] <= value));
check("another sorts downwards", down.every((value, at) => at === 0 || down[at - 1] >= value) && down[0] > down[down.length - 1]);

// Pointing at a name.
const point = (element, x, y) => element.dispatchEvent(new MouseEvent("mousemove", { bubbles: true, clientX: x, clientY: y }));
const name = document.querySelector('th[data-allocator]');
const index = name.dataset.allocator;
point(name, 1, 1);
check("pointing at a name lights its rows", document.querySelectorAll("tr.lit").length > 1 && name.closest("tr").classList.contains("lit"));
const others = document.querySelector(`.plot [class^=s]:not(.s${index}), .plot [class^=f]:not(.f${index})`);
check("and fades the others in figures", getComputedStyle(others).opacity < 0.5);
const own = document.querySelector(`.plot .s${index}, .plot .f${index}`);
check("but not its own", getComputedStyle(own).opacity > 0.5);

// Pointing at a place of a curve.
const tip = document.querySelector("#tip");
for (const figure of document.querySelectorAll("svg.plot")) {
  const group = [...figure.querySelectorAll("[data-at]")].find((of) => of.dataset.at);
  if (!group) continue;
  const [x, y, across] = group.dataset.at.split(";")[0].split(" ").map(Number);
  const at = new DOMPoint(x, y).matrixTransform(figure.getScreenCTM());
  point(figure, at.x, at.y);
  const label = figure.getAttribute("aria-label");
  check(`pointing at a place shows its values: ${label}`, !tip.hidden && tip.textContent.includes(group.dataset.x));
  check(`and its numbers: ${label}`, /\d/.test(tip.textContent) && !/NaN|undefined/.test(tip.textContent));
}
point(document.body, 1, 1);
check("pointing elsewhere shows nothing", tip.hidden && document.body.dataset.focus === undefined);
