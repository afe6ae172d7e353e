// -- the page of one queue --------------------------------------------------------

const FACTS = {
  ready: (row) => number(row.ready),
  scheduled: (row) => number(row.scheduled),
  leased: (row) => number(row.claimed),
  failed: (row) => number(row.failed),
  completed: (row) => number(row.completed),
  "oldest wait": oldestWait,
  workers: (row) => number(row.workers),
};

const noteOf = (row) => {
  if (row.trouble) return row.trouble;
  if (row.paused) return "Paused: its jobs wait until somebody resumes it.";
  const stuck = row.ready && !row.workers;
  return stuck ? `${number(row.ready)} ready, and no worker was seen lately.` : "";
};

const steer = async (name, verb, key = null) => {
  await api.send(name, verb, { partition_key: key });
  const what = key === null ? `Queue ${name}` : `Partition ${quoted(keyName(key))}`;
  return `${what} is ${verb}d.`;
};

const requeueOne = async (name, id) => {
  const { ids } = await api.send(name, "requeue", { ids: [id] });
  return `Job ${quoted(id)} ${ids.length ? "is requeued" : "is no dead letter any more"}.`;
};

// As many as were asked about, the oldest first: what fails again meanwhile is not among them.
const requeueAll = async (name, wanted) => {
  let done = 0;
  for (let more = true; more && done < wanted;) {
    const limit = Math.min(MOST_REQUEUED, wanted - done);
    const { ids } = await api.send(name, "requeue", { limit });
    done += ids.length;
    more = ids.length > 0;
    if (more) tell(`Queue ${name}: ${number(done)} of ${number(wanted)} requeued…`);
  }
  return `Queue ${name}: ${count(done, "dead letter")} requeued.`;
};

const jobId = named("Job", (row) => row.id, "id");
const task = named("Task", (row) => row.task_name);
const partition = named("Partition", (row) => keyName(row.partition_key));
const ago = (head, of) => figure(head, (row) => `${duration(age(of(row)))} ago`);

// How many jobs of a partition were ready; null: nobody looked, or its line was not kept.
const waited = ({ ready, waiting }, key) => ready === null ? null
  : waiting[key] ?? (Object.keys(waiting).length < LONGEST_LINES ? 0 : null);

const queuePage = {
  name: "",
  row: null, // of the list
  key: "", // of the partition that was asked for
  slots: Array(LINES).fill(null), // partitions that have a colour

  facts: Object.entries(FACTS).map(([label, of]) => {
    const shown = make("dd");
    $("facts").append(make("div", {}, make("dt", {}, label), shown));
    return (row) => say(shown, of(row));
  }),
  ended: new Figure("ended"),
  waiting: new Figure("waiting"),
  partitions: new Table("partitions", (row) => row.partition_key, [
    partition,
    state("State", (row) => (row.paused ? "paused" : row.ready || row.leased ? "active" : "idle")),
    figure("Ready", (row) => number(row.ready)),
    figure("Scheduled", (row) => number(row.scheduled)),
    figure("Leased / limit", (row) =>
      number(row.leased) + (row.limit === null ? "" : ` / ${number(row.limit)}`)),
    figure("Share", (row) => number(row.share)),
    figure("Oldest wait", (row) =>
      row.oldest_ready_at ? duration(age(row.oldest_ready_at)) : NOTHING),
    button((row) => (row.paused ? "Resume" : "Pause"),
      (row) => `partition ${keyName(row.partition_key)}`,
      (row) => steer(queuePage.name, row.paused ? "resume" : "pause", row.partition_key)),
  ]),
  failures: new Table("failures", (row) => row.id, [
    jobId,
    task,
    partition,
    named("Reason", (row) => row.reason || NOTHING, "wide"),
    ago("Failed", (row) => row.failed_at),
    button(() => "Requeue", (row) => `job ${row.id}`, (row) => requeueOne(queuePage.name, row.id)),
  ]),
  runs: new Table("runs", (row) => row.id, [
    jobId,
    task,
    partition,
    named("Worker", (row) => row.worker_id || NOTHING),
    ago("Completed", (row) => row.completed_at),
    figure("Ran for", (row) => duration(row.runtime)),
  ]),

  open(name) {
    if (name === this.name) return;
    this.name = name;
    this.key = $("key").value = "";
    this.slots.fill(null);
    for (const table of [this.partitions, this.failures, this.runs]) table.show([]);
  },

  async look(ask) {
    const { name, key } = this;
    const only = key ? `&partition_key=${encodeURIComponent(key)}` : "";
    const [all, stats, { partitions }] = await Promise.all([
      ask("queues"),
      ask(`${name}/stats`),
      ask(`${name}/partitions?limit=${MOST_PARTITIONS}${only}`),
      isStale(name) && freshMinutes(name, ask),
    ]);
    const row = all.queues.find((one) => one.queue === name);
    return () => this.show({ ...row, ...stats }, partitions, minutesOf.get(name).minutes);
  },

  show(row, partitions, minutes) {
    this.row = row;
    showState($("state"), stateOf(row));
    say($("engine"), `engine ${row.engine}${row.celery_queue ? ", run by Celery" : ""}`);
    say($("pause"), row.paused ? "Resume queue" : "Pause queue");
    say($("requeue"), `Requeue all failed (${number(row.failed)})…`);
    mark($("requeue"), "aria-disabled", row.failed ? null : "true");
    say($("note"), noteOf(row));
    for (const show of this.facts) show(row);
    this.ended.show(minutes, ended(minutes), endedInWords(minutes), "a minute");
    this.waiting.show(minutes, this.lines(minutes), "Ready jobs at each minute: those who waited "
      + `most, and all others together. Of a minute the ${LONGEST_LINES} longest lines are kept: the `
      + "jobs of a partition that was not among them are with all others, and its own number is "
      + "not known. A gap: nobody looked.", "ready");
    this.partitions.show(partitions);
    this.failures.show(row.recent_failures);
    this.runs.show(row.recent_runs);
    say($("partitions-about"), this.about(partitions.length));
    say($("failures-about"), row.recent_failures.length ? "" : "Nothing failed.");
    say($("runs-about"), row.recent_runs.length ? "" : "No job has completed.");
    const tasks = new Set([...row.recent_runs, ...row.recent_failures].map((one) => one.task_name));
    offerTasks([...tasks].sort());
  },

  about(shown) {
    if (this.key) return shown ? "" : "This partition has no jobs and no settings.";
    if (shown < MOST_PARTITIONS) return shown ? "" : "No partition has jobs.";
    return `The ${shown} with most ready jobs. Any other is found by its key.`;
  },

  // Who waited, a line for each: a partition keeps its colour as long as it has one.
  lines(minutes) {
    const sums = new Map();
    for (const { waiting } of minutes)
      for (const [key, ready] of Object.entries(waiting))
        sums.set(key, (sums.get(key) ?? 0) + ready);
    const longest = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a)).slice(0, LINES);
    const fresh = longest.filter((key) => !this.slots.includes(key));
    this.slots = this.slots.map((key) => (longest.includes(key) ? key : fresh.shift() ?? null));
    const series = [...this.slots.entries()].filter(([, key]) => key !== null).map(
      ([slot, key]) => ({
        label: visible(keyName(key)),
        css: `s${slot + 1}`,
        values: minutes.map((one) => waited(one, key)),
      }));
    const rest = minutes.map((one, index) => one.ready === null ? null
      : Math.max(0, one.ready - series.reduce((sum, { values }) => sum + values[index], 0)));
    if (rest.some((value) => value) || !series.length)
      series.push({ label: "all others", css: "rest", values: rest });
    return series;
  },
};

$("pause").addEventListener("click", ({ currentTarget }) =>
  act(currentTarget, () => steer(queuePage.name, queuePage.row.paused ? "resume" : "pause")));

$("requeue").addEventListener("click", async ({ currentTarget }) => {
  const { name, row } = queuePage;
  if (currentTarget.ariaBusy || currentTarget.ariaDisabled) return;
  const what = count(row.failed, "dead letter");
  const text = "They run again, each with a fresh budget of attempts.";
  if (await isSure(`Requeue ${what} of queue ${name}?`, text, `Requeue ${what}`))
    act($("requeue"), () => requeueAll(name, row.failed));
});

$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  queuePage.key = $("key").value;
  looking.now();
});
