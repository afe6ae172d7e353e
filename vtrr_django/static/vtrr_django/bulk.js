// Sends the form of a long run again and again until the run has ended. Without this script
// the button "Continue" does that.
"use strict";

{
  const form = document.getElementById("vtrr-run");
  const [on, stop, bar, text, trouble] = ["on", "stop", "bar", "text", "trouble"].map(
    (name) => document.getElementById(`vtrr-run-${name}`)
  );
  const address = form.getAttribute("action");
  let stopping = false;

  class LoggedOut extends Error {}

  // Where a session has ended, the answer leads to some log-in page, or is one.
  const isLogIn = (answer, type) =>
    answer.type === "opaqueredirect" ||
    answer.status === 401 ||
    (answer.ok && !(answer.headers.get("Content-Type") ?? "").includes(type));

  // After another log-in the token of the form is no good any more: take that of the page anew.
  const renew = async () => {
    const answer = await fetch(address, { redirect: "manual", cache: "no-store" });
    if (isLogIn(answer, "html")) throw new LoggedOut();
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const token = page.querySelector("#vtrr-run [name=csrfmiddlewaretoken]");
    if (!token) return false; // ended, or somebody else has logged in: the page says so
    form.elements.csrfmiddlewaretoken.value = token.value;
    return true;
  };

  const post = () => {
    const body = new FormData(form);
    if (stopping) body.set("stop", "1");
    const headers = { Accept: "application/json" };
    return fetch(address, { method: "POST", body, headers, redirect: "manual" });
  };

  const send = async () => {
    let answer = await post();
    if (isLogIn(answer, "json") || answer.status === 403) {
      if (!(await renew())) return { location: address };
      answer = await post();
    }
    if (isLogIn(answer, "json")) throw new LoggedOut();
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return answer.json();
  };

  const fail = (reason) => {
    trouble.textContent = reason;
    trouble.hidden = on.hidden = false;
    stopping = stop.disabled = false;
  };

  const work = async () => {
    trouble.hidden = on.hidden = true;
    try {
      for (;;) {
        const news = await send();
        if (news.location) {
          window.location.assign(news.location);
          return;
        }
        bar.value = news.percent;
        if (!stopping) text.textContent = news.text;
        if (news.trouble) {
          fail(news.trouble);
          return;
        }
      }
    } catch (error) {
      if (error instanceof LoggedOut) {
        fail("You were logged out: log in again in another tab, then press Continue.");
      } else {
        fail(`No good answer: ${error.message}. Press Continue to go on.`);
      }
    }
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.submitter === stop) {
      stopping = stop.disabled = true;
      text.textContent = "Stopping…";
      if (on.hidden) return; // the batch that runs is the last one
    }
    work();
  });

  if ("goes" in form.dataset) work();
}
