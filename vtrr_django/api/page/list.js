// -- the page of all queues -------------------------------------------------------

const stateOf = (queue) => (queue.trouble ? "trouble" : queue.paused ? "paused" : "running");

const oldestWait = (row) => (row.ready ? duration(row.oldest_wait_seconds) : NOTHING);

const minutesOf = new Map(); // by queue: {at, minutes}

const freshMinutes = async (queue, ask) => {
  const { minutes } = await ask(`${queue}/minutes`);
  minutesOf.set(queue, { at: Date.now(), minutes });
};

const since = (queue) => Date.now() - (minutesOf.get(queue)?.at ?? 0);
const isStale = (queue) => since(queue) > FIGURES_EVERY;

const listPage = {
  table: new Table("list", (row) => row.queue, [
    {
      head: "Queue",
      make(cell) {
        const link = cell.appendChild(make("a"));
        const engine = cell.appendChild(make("small"));
        return ({ queue, engine: kind }) => {
          say(link, queue);
          mark(link, "href", `#/${queue}`);
          say(engine, kind);
        };
      },
    },
    {
      head: "State",
      make(cell) {
        const shown = cell.appendChild(make("span"));
        const trouble = cell.appendChild(make("small", { class: "wide" }));
        return (row) => {
          showState(shown, stateOf(row));
          say(trouble, row.trouble ?? "");
        };
      },
    },
    figure("Ready", (row) => number(row.ready)),
    figure("Scheduled", (row) => number(row.scheduled)),
    figure("Leased", (row) => number(row.claimed)),
    figure("Failed", (row) => number(row.failed)),
    figure("Completed", (row) => number(row.completed)),
    figure("Oldest wait", oldestWait),
    figure("Workers", (row) => number(row.workers)),
    {
      head: "Last hour",
      css: "hour",
      make(cell) {
        const svg = cell.appendChild(canvas("spark"));
        const total = cell.appendChild(make("span", { class: "n" }));
        return ({ queue }) => {
          const { minutes } = minutesOf.get(queue) ?? { minutes: [] };
          plot(svg, times(minutes), ended(minutes));
          mark(svg, "aria-label", `Jobs ended per minute: ${endedInWords(minutes)}`);
          say(total, number(minutes.reduce((sum, one) => sum + one.completed, 0)));
        };
      },
    },
  ]),

  async look(ask) {
    const { queues } = await ask("queues");
    const well = queues.filter((one) => !one.trouble).map((one) => one.queue);
    const stale = well.filter(isStale).sort((a, b) => since(b) - since(a));
    await Promise.all(stale.slice(0, MOST_FIGURES).map((one) => freshMinutes(one, ask)));
    return () => this.table.show(queues);
  },
};
