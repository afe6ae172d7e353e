// -- plots ------------------------------------------------------------------------

const STEP = 10;
const HEIGHT = 120;

const highest = (times, series) => {
  const height = (index) => series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0);
  return Math.max(0, ...times.map((_, index) => height(index)));
};

// Stacked columns, one for each time; series: {label, css, values}, the lowest first.
const plot = (svg, times, series) => {
  const drawn = JSON.stringify([times, series]);
  if (svg.vtrrDrawn === drawn) return;
  svg.vtrrDrawn = drawn;
  const scale = HEIGHT / (highest(times, series) || 1);
  const columns = times.map((time, index) => {
    const told = series.filter(({ values }) => values[index]).map(
      ({ label, values }) => `${label} ${number(values[index])}`);
    const x = index * STEP;
    const column = draw("g", {}, draw("title", {}, `${time}: ${told.join(", ") || "nothing"}`),
      draw("rect", { class: "hit", x, y: 0, width: STEP, height: HEIGHT }));
    let top = HEIGHT;
    for (const { css, values } of series) {
      if (!values[index]) continue;
      const height = Math.max(1, values[index] * scale); // the few are seen beside the many
      top = Math.max(0, top - height);
      column.append(draw("rect", { class: css, x: x + 1, y: top, width: STEP - 2, height }));
    }
    return column;
  });
  svg.setAttribute("viewBox", `0 0 ${STEP * times.length} ${HEIGHT}`);
  svg.replaceChildren(...columns);
};

const canvas = (css) =>
  draw("svg", { class: css, role: "img", preserveAspectRatio: "none", focusable: "false" });

const ended = (minutes) => [
  { label: "completed", css: "s1", values: minutes.map((one) => one.completed) },
  { label: "failed", css: "bad", values: minutes.map((one) => one.failed) },
];

const endedInWords = (minutes) => {
  const [completed, failed] = ended(minutes).map(
    ({ values }) => values.reduce((sum, one) => sum + one, 0));
  const most = highest(minutes, ended(minutes));
  return `${number(completed)} completed and ${number(failed)} failed; `
    + `at most ${number(most)} in one minute`;
};

const times = (minutes) => minutes.map((one) => clock(one.at));

// A plot with what stands around it, and its numbers as a table for those who open it.
class Figure {
  constructor(id) {
    const root = $(id);
    this.title = root.querySelector("h2").textContent;
    this.about = root.querySelector("figcaption p");
    this.top = make("p", { "aria-hidden": "true" });
    this.svg = canvas("columns");
    mark(this.svg, "aria-label", this.title);
    this.ends = [make("span"), make("span")];
    this.legend = make("ul", { class: "legend" });
    const region = { class: "scroll", tabindex: 0, role: "region", "aria-label": this.title };
    this.numbers = make("div", region);
    this.details = make("details", {}, make("summary", {}, "Numbers"), this.numbers);
    this.details.addEventListener("toggle", () => this.tabulate());
    root.append(this.top, this.svg, make("p", { class: "ends", "aria-hidden": "true" },
      ...this.ends), this.legend, this.details);
  }

  show(minutes, series, about, unit) {
    const labels = times(minutes);
    this.data = [labels, series];
    plot(this.svg, labels, series);
    mark(this.svg, "aria-label", `${this.title}. ${about}`);
    say(this.about, about);
    say(this.top, `${number(highest(labels, series))} ${unit}`);
    this.ends.forEach((one, index) => say(one, labels.at(-index) ?? ""));
    const names = series.map(({ label, css }) => make("li", {},
      draw("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" },
        draw("rect", { class: css, width: 10, height: 10 })), make("bdi", {}, label)));
    this.legend.replaceChildren(...names);
    this.tabulate();
  }

  tabulate() {
    if (!this.details.open || !this.data || this.tabulated === this.svg.vtrrDrawn) return;
    this.tabulated = this.svg.vtrrDrawn;
    const [labels, series] = this.data;
    const heads = ["time", ...series.map(({ label }) => label)];
    const rows = labels.map((label, index) => make("tr", {},
      make("th", { scope: "row" }, label),
      ...series.map(({ values }) => make("td", { class: "n" }, number(values[index])))));
    this.numbers.replaceChildren(make("table", { "aria-label": `${this.title}: numbers` },
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows)));
  }
}
