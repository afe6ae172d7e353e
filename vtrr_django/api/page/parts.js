// The dashboard. It asks the HTTP API beside which it is served, and knows nothing by itself.
//
// What the server says becomes text nodes and plain attributes only; the page's policy
// (require-trusted-types-for) refuses anything else, and styles in attributes too.
"use strict";

const EVERY = 2_500; // milliseconds between two looks
const FIGURES_EVERY = 10_000; // minutes change slowly
const PATIENCE = 15_000; // for one answer
const MOST_PARTITIONS = 100;
const MOST_FIGURES = 6; // queues of the list whose plots are fetched in one look
const MOST_REQUEUED = 1_000; // in one request, as the API has it
const LINES = 6; // partitions with a colour of their own
const LONGEST_LINES = 10; // partitions of which a minute keeps how many jobs waited
const KEPT = "vtrr-secret";
const NOTHING = "–";

const $ = (id) => document.getElementById(id);
const site = document.querySelector("meta[name=vtrr]").dataset;

// -- elements ---------------------------------------------------------------------

const filled = (one, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  one.append(...children);
  return one;
};

// What nobody sees, or what turns its surroundings, is escaped: else a name could look like another.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{Zs}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;

const visible = (text) => text.replace(UNSEEN, (char, at) => {
  const before = text[at - 1] ?? "", isEdge = at === 0 || at + char.length === text.length;
  if (char === " ") return isEdge || before === " " ? "\u2423" : char;
  // Within a word these choose its letters' forms, in Persian or in an emoji.
  if (/[\u200c\u200d]/.test(char) && !isEdge && !/[\u200c\u200d]/.test(before)) return char;
  const code = char.codePointAt(0).toString(16);
  const [letter, digits] = code.length <= 2 ? ["x", 2] : code.length <= 4 ? ["u", 4] : ["U", 8];
  return `\\${letter}${code.padStart(digits, "0")}`;
});

const make = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

const draw = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Only what changed is written: a selection, and what a screen reader is saying, stay.
const say = (one, text) => {
  if (one.textContent !== text) one.textContent = text;
};

const mark = (one, name, value) => {
  if (value === null) one.removeAttribute(name);
  else if (one.getAttribute(name) !== value) one.setAttribute(name, value);
};

// -- words ------------------------------------------------------------------------

const number = (value) =>
  value == null ? NOTHING : value.toLocaleString("en", { maximumFractionDigits: 3 });

const count = (value, what) => `${number(value)} ${what}${value === 1 ? "" : "s"}`;

const duration = (seconds) => {
  if (seconds == null) return NOTHING;
  if (seconds > 0 && seconds < 0.1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes < 60) return `${minutes} min`;
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
};

const clock = (time, seconds) =>
  new Date(time).toLocaleTimeString("en-GB", { timeStyle: seconds ? "medium" : "short" });

// By the server's clock: the reader's may be wrong.
const age = (time) => Math.max(0, (Date.now() + api.ahead - Date.parse(time)) / 1000);

const keyName = (key) => key || '""';

// A name within a sentence does not turn what stands around it.
const quoted = (text) => `\u2068${text.length > 60 ? `${text.slice(0, 59)}…` : text}\u2069`;
