// -- the API ----------------------------------------------------------------------

class Refused extends Error {
  constructor(status, body) {
    super(typeof body?.error === "string" ? body.error : `the server answered ${status}`);
    this.status = status;
    this.path = typeof body?.path === "string" ? body.path : "";
  }
}

const api = {
  secret: null,
  ahead: 0, // milliseconds by which the server's clock is ahead

  // Without user and password, with which an address may have been opened: fetch refuses those.
  address: (path) => location.origin + location.pathname + path,

  headers(writes) {
    const headers = { Accept: "application/json" };
    if (this.secret !== null) {
      const bytes = new TextEncoder().encode(`vtrr:${this.secret}`);
      headers.Authorization = `Basic ${btoa(String.fromCharCode(...bytes))}`;
    }
    if (writes) headers["Content-Type"] = "application/json";
    if (writes && site.csrf) headers[site.csrfHeader] = site.csrf;
    return headers;
  },

  // body: JSON as text, so that numbers get there as they were written.
  async ask(path, { body, signal } = {}) {
    const patience = AbortSignal.timeout(PATIENCE);
    const response = await fetch(this.address(path), {
      method: body === undefined ? "GET" : "POST",
      headers: this.headers(body !== undefined),
      body,
      cache: "no-store",
      redirect: "error",
      signal: signal ? AbortSignal.any([signal, patience]) : patience,
    });
    const answer = await response.json().catch(() => null);
    if (!response.ok) throw new Refused(response.status, answer);
    if (answer === null) throw new Error("That was no answer of the API.");
    this.ahead = (Date.parse(response.headers.get("date")) || Date.now()) - Date.now();
    return answer;
  },

  send(queue, verb, body) {
    return this.ask(`${queue}/${verb}`, { body: JSON.stringify(body) });
  },
};

// -- messages ---------------------------------------------------------------------

const tell = (text, bad = false) => {
  say($("message"), text);
  $("told").classList.toggle("bad", bad);
};

const sentence = (text) => {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
};

const whatWentWrong = (error) =>
  sentence(error instanceof Refused ? error.message : "the server does not answer");

const complain = (error) =>
  say($("trouble"), error ? `${whatWentWrong(error)} This page goes on by itself.` : "");
