// -- looking ----------------------------------------------------------------------

let page = null; // the one that is shown; null: nobody may see one

// One look after the other. An act, or another page, begins a new one at once, and what the
// one before has not shown by then it never shows.
const looking = {
  timer: 0,
  ends: new AbortController(),

  async now() {
    clearTimeout(this.timer);
    this.ends.abort();
    const { signal } = this.ends = new AbortController();
    if (document.hidden || page === null) return;
    let show = null;
    try {
      show = await page.look((path) => api.ask(path, { signal }));
    } catch (error) {
      if (signal.aborted || keptOut(error)) return;
      complain(error);
    }
    if (signal.aborted) return;
    this.timer = setTimeout(() => this.now(), EVERY);
    if (show === null) return;
    show();
    mark(document.querySelector("main"), "aria-busy", null);
    say($("as-of"), `as of ${clock(Date.now(), true)}`);
    complain(null);
  },
};

const keptOut = (error) => {
  if (![401, 403].includes(error.status)) return false;
  askForSecret(error.status === 403 ? `${error.message} Or enter the secret.`
    : api.secret === null ? "" : "This secret is not accepted any more.");
  return true;
};

// Do what a button says, once however often it is pressed, and tell what came of it.
const act = async (one, work) => {
  if (one.ariaBusy) return;
  one.ariaBusy = "true"; // disabled, it would lose the focus
  tell("");
  try {
    tell(await work());
  } catch (error) {
    if (error.status !== 401 || !keptOut(error)) tell(whatWentWrong(error), true);
  }
  one.ariaBusy = null;
  looking.now();
};
