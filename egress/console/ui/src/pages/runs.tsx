import { useContext } from "preact/hooks";
import { asCurl } from "../repeat";
import type { Route } from "../route";
import { Code, Copy, Empty, Select, Text } from "../ui";
import { statuses } from "../vocabulary";
import { Who } from "../who";
import { Listed, ListHead, Range, Statuses, useFilters, useListing } from "./list";

const names = ["q", "status", "kind", "agent", "task", "since", "until"] as const;
const streamed = ["run", "chat"] as const;

export function Runs({ route }: { route: Route }) {
  const filters = useFilters(route, names);
  const asked = { ...filters.of, kind: filters.of.kind || streamed.join(",") };
  const list = useListing(asked);
  return (
    <>
      <ListHead title="Runs and chats" list={list} filtered={filters.some} />
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <Text label="Search" type="search" value={filters.of.q} placeholder="Model, agent, caller or id" onChange={filters.set("q")} />
        <Select label="Status" value={filters.of.status} options={["open", ...statuses]} any="any" onChange={filters.set("status")} />
        <Select label="Kind" value={filters.of.kind} options={streamed} any="both" onChange={filters.set("kind")} />
        <Text label="Task type" value={filters.of.agent} placeholder="its agent" onChange={filters.set("agent")} />
        <Text label="Task" value={filters.of.task} placeholder="full id" onChange={filters.set("task")} />
        <Range of={filters.of} put={filters.put} />
      </form>
      <Statuses filters={asked} status={filters.of.status} choose={filters.set("status")} />
      <Listed list={list} to="runs" what="runs or chats" filtered={filters.some} onAll={filters.clear}>
        <Nothing />
      </Listed>
    </>
  );
}

/** How to create the first run. */
function Nothing() {
  const who = useContext(Who);
  const echo = asCurl(location.origin, "/agents/run/stream", { request_id: "echo-1", task_type: "ECHO", inputs: { steps: 20, interval_ms: 500 } }, who.mode !== "open");
  return (
    <Empty title="No runs or chats yet.">
      <p>
        Send a completion: <code>weir chat MODEL 'Hello'</code>. Or start an ECHO run and watch it here:
      </p>
      <Code value={echo} />
      <Copy label="Copy" text={() => echo} />
    </Empty>
  );
}
