// -- tables -----------------------------------------------------------------------

// Whoever points at a row, or is about to press its button, should not have it move away.
const isInUse = (table) => {
  const selection = getSelection();
  return table.matches(":hover, :focus-within")
    || (!selection.isCollapsed && table.contains(selection.anchorNode));
};

// A column: its head, a class, and what makes of an empty cell a function that shows a row.
const text = (head, of, css = "") => ({ head, css, make: (cell) => (row) => say(cell, of(row)) });

const figure = (head, of) => text(head, of, "n");

const named = (head, of, css = "") => ({
  head,
  css,
  make(cell) {
    const shown = cell.appendChild(make("bdi", { dir: "auto" }));
    return (row) => {
      const name = visible(of(row));
      say(shown, name);
      mark(shown, "title", name.length > 20 ? name : null);
    };
  },
});

const state = (head, of) => ({
  head,
  css: "",
  make(cell) {
    const shown = cell.appendChild(make("span"));
    return (row) => showState(shown, of(row));
  },
});

const showState = (one, now) => {
  say(one, now);
  mark(one, "class", `state ${now}`);
};

const button = (label, about, press) => ({
  head: "Action",
  css: "action",
  make(cell) {
    let now;
    const one = cell.appendChild(make("button", { type: "button" }));
    one.addEventListener("click", () => act(one, () => press(now)));
    return (row) => {
      now = row;
      say(one, label(row));
      mark(one, "aria-label", `${label(row)} ${about(row)}`);
    };
  },
});

class Table {
  // id: of the element; key: of a row; columns: see above, the first one names the row.
  constructor(id, key, columns) {
    const heads = columns.map(({ head, css }) =>
      make("th", { scope: "col", role: "columnheader", class: css }, head));
    this.key = key;
    this.columns = columns;
    this.lines = new Map();
    this.body = make("tbody", { role: "rowgroup" });
    // The roles are said once more, since on a phone rows are drawn as cards.
    filled($(id), { role: "table" }, [
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...heads)),
      this.body,
    ]);
  }

  show(rows) {
    const table = this.body.parentElement;
    const wanted = new Map(rows.map((row) => [this.key(row), row]));
    table.hidden = !rows.length && !table.contains(document.activeElement);
    for (const [key, line] of this.lines) if (!wanted.has(key)) this.remove(key, line);
    table.hidden = !rows.length;
    for (const [key, row] of wanted) (this.lines.get(key) ?? this.add(key)).show(row);
    if (!isInUse(table)) this.sort([...wanted.keys()]);
  }

  add(key) {
    const row = make("tr", { role: "row" });
    const shows = this.columns.map(({ head, css, make: fill }, index) => {
      const tag = index ? "td" : "th";
      const role = index ? "cell" : "rowheader";
      const cell = make(tag, { role, class: css, "data-head": head });
      if (!index) cell.scope = "row";
      row.append(cell);
      return fill(cell);
    });
    const line = { row, show: (data) => shows.forEach((show) => show(data)) };
    this.lines.set(key, line);
    this.body.append(row);
    return line;
  }

  remove(key, { row }) {
    if (row.contains(document.activeElement)) {
      // Who works with the keyboard stays in the list, or at least near it.
      const next = row.nextElementSibling ?? row.previousElementSibling;
      const title = this.body.parentElement.getAttribute("aria-labelledby");
      (next?.querySelector("button, a") ?? $(title)).focus({ preventScroll: true });
    }
    row.remove();
    this.lines.delete(key);
  }

  sort(keys) {
    let place = this.body.firstElementChild;
    for (const key of keys) {
      const { row } = this.lines.get(key);
      if (row === place) place = place.nextElementSibling;
      else this.body.insertBefore(row, place);
    }
  }
}
