// -- dialogs ----------------------------------------------------------------------

for (const one of document.querySelectorAll("[data-close]"))
  one.addEventListener("click", () => one.closest("dialog").close(""));

// Ask whether to go on; Escape and Cancel say no.
const isSure = (title, text, yes) => {
  const dialog = $("sure");
  say($("sure-title"), title);
  say($("sure-text"), text);
  say($("sure-yes"), yes);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
};

$("sure").firstElementChild.addEventListener("submit", (event) => {
  event.preventDefault();
  $("sure").close("yes");
});

// A job's id, a UUIDv7: with it, an enqueueing whose answer was lost may be said again.
const newId = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const random = BigInt(bytes[6] << 8 | bytes[7]);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(Date.now()) << 16n | random);
  bytes[6] = bytes[6] & 0x0f | 0x70;
  bytes[8] = bytes[8] & 0x3f | 0x80;
  const hex = [...bytes].map((one) => one.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
};

class Wrong extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

// Fields as JSON. What is no number goes as text: what is expected instead, the API says best.
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?$/;
const asText = (field) => JSON.stringify(field.value);
const asNumber = ({ value }) => NUMBER.test(value.trim()) ? value.trim() : JSON.stringify(value);
const asJson = ({ name, value }) => {
  try {
    JSON.parse(value);
    return value; // as it is: parsed, a large number would lose digits
  } catch (error) {
    throw new Wrong(name, `expected JSON: ${error.message}`);
  }
};
const WRITTEN = {
  task: asText,
  args: asJson,
  kwargs: asJson,
  partition_key: asText,
  weight: asNumber,
  priority: asNumber,
  delay: asNumber,
};

const enqueueing = {
  form: $("enqueue").firstElementChild,
  id: newId(),

  field(name) {
    return Object.hasOwn(WRITTEN, name) ? this.form.elements[name] : null;
  },

  // Say what is wrong at the field it is about, or below all of them.
  blame(name, message) {
    const field = this.field(name);
    say(field ? $(`${name}-error`) : $("enqueue-error"), message);
    if (!field) return;
    field.setAttribute("aria-invalid", "true");
    field.focus();
  },

  forgive() {
    say($("enqueue-error"), "");
    for (const name of Object.keys(WRITTEN)) {
      say($(`${name}-error`), "");
      this.field(name).removeAttribute("aria-invalid");
    }
  },

  async send() {
    this.forgive();
    try {
      const fields = Object.entries(WRITTEN).map(
        ([name, write]) => `"${name}": ${write(this.field(name))}`);
      const body = `{"id": "${this.id}", ${fields.join(", ")}}`;
      const { ids } = await api.ask(`${queuePage.name}/jobs`, { body });
      this.id = newId();
      $("enqueue").close();
      tell(`Job ${ids[0]} is enqueued.`);
    } catch (error) {
      if (error instanceof Wrong) this.blame(error.field, error.message);
      else if (error instanceof Refused) {
        if (error.status === 401 && keptOut(error)) return;
        this.blame(/^(?:jobs\[0\]\.)?(\w+)/.exec(error.path)?.[1], error.message);
      } else {
        this.blame("", "The server did not answer. If you press Enqueue again, the job is still "
          + "enqueued only once.");
      }
    }
    looking.now();
  },
};

const offerTasks = (names) => {
  const offered = [...$("tasks").options].map(({ value }) => value);
  if (offered.join("\n") !== names.join("\n"))
    $("tasks").replaceChildren(...names.map((value) => make("option", { value })));
};

for (const name of Object.keys(WRITTEN)) {
  const field = enqueueing.field(name);
  field.setAttribute("aria-describedby", `${name}-error`);
  field.after(make("p", { class: "error", id: `${name}-error` }));
}

// Another job has another id.
enqueueing.form.addEventListener("input", () => {
  enqueueing.id = newId();
});

enqueueing.form.addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("send").ariaBusy) return;
  $("send").ariaBusy = "true";
  enqueueing.send().finally(() => { $("send").ariaBusy = null; });
});

$("open-enqueue").addEventListener("click", () => $("enqueue").showModal());
