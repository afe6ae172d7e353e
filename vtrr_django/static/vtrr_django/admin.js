// One box that ticks all others of its form; without this script it is not there.
// And no form is sent twice by a double click: the answer to the second would hide that to the first.
"use strict";

// A browser that comes back to a page fills in its forms by position, and ticks what has moved up
// to where something was ticked before. It keeps nothing of those that say so when it leaves.
for (const form of document.querySelectorAll(".vtrr form[method=post], #changelist-form")) {
  form.autocomplete = "off";
}

for (const form of document.querySelectorAll(".vtrr form[method=post]:not(#vtrr-run)")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.vtrrSent) event.preventDefault();
    form.dataset.vtrrSent = "1";
  });
}
// A page that comes back from the browser's memory may be used again.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-vtrr-sent]")) delete form.dataset.vtrrSent;
});

for (const all of document.querySelectorAll("input[data-vtrr-all]")) {
  const others = [...all.form.querySelectorAll(`input[name="${all.dataset.vtrrAll}"]`)];
  all.hidden = false;
  all.addEventListener("change", () => {
    for (const one of others) one.checked = all.checked;
  });
  for (const one of others) {
    one.addEventListener("change", () => {
      all.checked = others.every((other) => other.checked);
    });
  }
}
