"use strict";

/* Sends files with progress, and keeps the list of uploads up to date.
   Without this script the page is a plain form and a plain list. */

const BUSY_MS = 1000;
const IDLE_MS = 5000;
const ANNOUNCE_MS = 8000;

const byId = (id) => document.getElementById(id);

/* ---- the list ------------------------------------------------------------------ */

const list = byId("rows");
let pollTimer = 0;
let polling = false;
let lastAnnouncement = { at: 0, text: "" };

function fillRow(element, row) {
  element.dataset.id = row.id;
  element.dataset.state = row.state;
  element.querySelector(".name bdi").textContent = row.name;
  element.querySelector(".state").textContent = row.label;
  element.querySelector(".facts").textContent = row.facts;
  for (const link of element.querySelectorAll("a")) link.href = row.url;
  const picture = element.querySelector(".picture");
  if (!row.thumbnail) {
    picture.textContent = row.kind;
  } else if (!picture.querySelector("img")) {
    const image = document.createElement("img");
    image.alt = "";
    image.srcset = `${row.thumbnail_2x} 2x`;
    image.src = row.thumbnail;
    picture.replaceChildren(image);
  }
}

function showRows(rows) {
  const known = new Map([...list.children].map((element) => [element.dataset.id, element]));
  rows.forEach((row, place) => {
    const element =
      known.get(String(row.id)) ?? byId("row-template").content.firstElementChild.cloneNode(true);
    known.delete(String(row.id));
    fillRow(element, row);
    // Moving an element that is in place already would take the focus from its link.
    if (list.children[place] !== element) list.insertBefore(element, list.children[place] ?? null);
  });
  for (const element of known.values()) element.remove();
  byId("nothing").hidden = rows.length > 0;
}

function showCounts(counts) {
  for (const [state, count] of Object.entries(counts)) {
    const number = document.querySelector(`[data-count="${state}"] strong`);
    if (number) number.textContent = count.toLocaleString("en");
  }
  const open = counts.waiting + counts.processing;
  const text = open
    ? `${open} files are not processed yet.`
    : `All files are processed: ${counts.done} done, ${counts.failed} failed.`;
  const { at, text: before } = lastAnnouncement;
  if (before && text !== before && (!open || Date.now() - at > ANNOUNCE_MS)) {
    byId("announcement").textContent = text;
    lastAnnouncement = { at: Date.now(), text };
  } else if (!before) {
    lastAnnouncement = { at: Date.now(), text };
  }
}

function showConnection(text) {
  byId("connection").textContent = text;
  byId("connection").hidden = !text;
}

async function poll() {
  clearTimeout(pollTimer);
  if (polling || document.hidden) return;
  polling = true;
  let pause = IDLE_MS;
  try {
    const response = await fetch(list.dataset.url, {
      headers: { Accept: "application/json" },
      redirect: "manual",
    });
    if (response.type === "opaqueredirect") {
      showConnection("You are signed out. Reload this page to sign in again.");
      return;
    }
    if (!response.ok) throw new Error(`status ${response.status}`);
    const state = await response.json();
    showRows(state.uploads);
    showCounts(state.counts);
    showConnection("");
    if (state.counts.waiting + state.counts.processing > 0) pause = BUSY_MS;
  } catch {
    showConnection("The server does not answer. Trying again…");
  } finally {
    polling = false;
  }
  pollTimer = setTimeout(poll, pause);
}

document.addEventListener("visibilitychange", poll);

/* ---- sending ------------------------------------------------------------------- */

const form = byId("upload-form");
const input = form.querySelector("input[type=file]");
const drop = byId("drop");
const limits = {
  files: Number(form.dataset.maxFiles),
  fileBytes: Number(form.dataset.maxFileBytes),
  requestBytes: Number(form.dataset.maxRequestBytes),
};
let sending = null;

function showErrors(texts) {
  const errors = document.createElement("ul");
  errors.className = "errorlist";
  for (const text of texts) {
    const item = document.createElement("li");
    item.textContent = text;
    errors.append(item);
  }
  byId("upload-errors").replaceChildren(...(texts.length ? [errors] : []));
}

const megabytes = (bytes) => `${(bytes / 1024 / 1024).toFixed(1)} MB`;

/* Any number of files may be dropped: they go in batches that the server accepts. */
function batchesOf(files) {
  const batches = [];
  let batch = [];
  let bytes = 0;
  for (const file of files) {
    if (batch.length === limits.files || (batch.length && bytes + file.size > limits.requestBytes)) {
      batches.push(batch);
      batch = [];
      bytes = 0;
    }
    batch.push(file);
    bytes += file.size;
  }
  if (batch.length) batches.push(batch);
  return batches;
}

function post(batch, onProgress) {
  return new Promise((resolve, reject) => {
    const body = new FormData();
    body.append("csrfmiddlewaretoken", form.elements.csrfmiddlewaretoken.value);
    for (const file of batch) body.append("files", file);
    const request = new XMLHttpRequest();
    sending = request;
    request.open("POST", form.action);
    request.setRequestHeader("Accept", "application/json");
    request.responseType = "json";
    request.upload.onprogress = (event) => onProgress(event.loaded / (event.total || 1));
    request.onload = () => {
      if (request.status === 201 && request.response) resolve();
      else if (request.response?.errors) reject(new Error(request.response.errors.join("\n")));
      else reject(new Error("These files were not accepted. Reload this page and try again."));
    };
    request.onerror = () => reject(new Error("The connection was lost. Please try again."));
    request.onabort = () => reject(new Error("Stopped."));
    request.send(body);
  });
}

async function send(files) {
  if (sending) {
    showErrors(["Please wait until the files before are sent."]);
    return;
  }
  const tooLarge = files.filter((file) => file.size > limits.fileBytes);
  const good = files.filter((file) => file.size <= limits.fileBytes);
  const errors = tooLarge.map(
    (file) => `“${file.name}” was left out: a file may have at most ${megabytes(limits.fileBytes)}.`,
  );
  showErrors(errors);
  if (!good.length) return;

  const total = good.reduce((sum, file) => sum + file.size, 0) || 1;
  let sentFiles = 0;
  let sentBytes = 0;
  byId("upload-progress").hidden = false;
  byId("upload-submit").disabled = true;
  byId("upload-bar").value = 0;
  try {
    for (const batch of batchesOf(good)) {
      const size = batch.reduce((sum, file) => sum + file.size, 0);
      byId("upload-text").textContent =
        `Sending files ${sentFiles + 1} to ${sentFiles + batch.length} of ${good.length}`;
      await post(batch, (part) => {
        byId("upload-bar").value = (sentBytes + part * size) / total;
      });
      sentFiles += batch.length;
      sentBytes += size;
      poll();
    }
    form.reset();
  } catch (error) {
    const sent = sentFiles ? [`${sentFiles} of ${good.length} files were received.`] : [];
    showErrors([...errors, ...sent, ...error.message.split("\n")]);
  } finally {
    sending = null;
    byId("upload-progress").hidden = true;
    byId("upload-submit").disabled = false;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  send([...input.files]);
});
byId("upload-cancel").addEventListener("click", () => sending?.abort());

/* A drop anywhere on the page counts, so that a near miss does not open the file instead. */
const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
for (const kind of ["dragenter", "dragover"]) {
  document.addEventListener(kind, (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    drop.classList.add("over");
  });
}
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) drop.classList.remove("over");
});
document.addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  drop.classList.remove("over");
  // A folder shows up as an entry without content; only files can be sent.
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.());
  const files = [...event.dataTransfer.files].filter((_, place) => !entries[place]?.isDirectory);
  if (files.length) send(files);
  else showErrors(["Folders cannot be sent. Please drop the files in them."]);
});

for (const element of document.querySelectorAll(".script-only")) element.hidden = false;
poll();
