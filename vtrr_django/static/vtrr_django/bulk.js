// Sends the form of a long run again and again until the run has ended. Without this script
// the button "Continue" does that.
"use strict";

{
  const form = document.getElementById("vtrr-run");
  const [on, stop, bar, text, trouble] = ["on", "stop", "bar", "text", "trouble"].map(
    (name) => document.getElementById(`vtrr-run-${name}`)
  );
  let stopping = false;

  const send = async () => {
    const body = new FormData(form);
    if (stopping) body.set("stop", "1");
    const headers = { Accept: "application/json" };
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, headers });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return response.json();
  };

  const fail = (reason) => {
    trouble.textContent = `${reason} Press Continue to go on.`;
    trouble.hidden = on.hidden = false;
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
      fail(`No good answer: ${error.message}.`);
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

  if (trouble.hidden) work();
}
