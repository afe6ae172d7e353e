// -- the secret -------------------------------------------------------------------

// A browser that keeps nothing for pages refuses to be asked.
const kept = (work) => {
  try {
    return work(sessionStorage);
  } catch {
    return null;
  }
};

const askForSecret = (problem) => {
  page = null;
  looking.now();
  api.secret = null;
  kept((storage) => storage.removeItem(KEPT));
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close("");
  complain(null);
  tell("");
  say($("as-of"), "");
  show("login", "The secret, please");
  say($("secret-error"), problem);
  mark($("secret"), "aria-invalid", problem ? "true" : null);
  $("secret").focus();
};

const enter = async () => {
  api.secret = $("secret").value;
  try {
    await api.ask("queues");
  } catch (error) {
    if ([401, 403].includes(error.status)) return askForSecret("This is not the secret.");
    return say($("secret-error"), whatWentWrong(error));
  }
  if ($("keep").checked) kept((storage) => storage.setItem(KEPT, api.secret));
  $("secret").value = "";
  go();
  $("title").focus();
};

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("secret").value) enter();
  else askForSecret("Enter the secret.");
});

// Nothing of what was shown stays in memory.
$("forget").addEventListener("click", () => {
  kept((storage) => storage.removeItem(KEPT));
  location.reload();
});

// -- which page -------------------------------------------------------------------

const show = (id, title) => {
  for (const one of ["login", "queues", "queue"]) $(one).hidden = one !== id;
  $("forget").hidden = api.secret === null;
  $("all").hidden = id !== "queue";
  mark(document.querySelector("main"), "aria-busy", null);
  say($("title"), title);
  document.title = `${title} · vtrr`;
};

const go = () => {
  const name = /^#\/([\w-]{1,64})$/.exec(location.hash)?.[1];
  tell("");
  if (name) queuePage.open(name);
  page = name ? queuePage : listPage;
  show(name ? "queue" : "queues", name ? `Queue ${name}` : "Queues");
  document.querySelector("main").ariaBusy = "true"; // there is nothing to be seen yet
  looking.now();
};

window.addEventListener("hashchange", () => {
  if (page === null) return;
  go();
  $("title").focus();
});

document.addEventListener("visibilitychange", () => looking.now());

$("hush").addEventListener("click", () => tell(""));

api.secret = kept((storage) => storage.getItem(KEPT));
if (api.secret !== null || site.open) go();
else askForSecret("");
