import { useState } from "preact/hooks";
import type { Route } from "../route";
import { Empty, Select, Text } from "../ui";
import { kinds, methods, statuses } from "../vocabulary";
import { Listed, ListHead, Range, Statuses, useFilters, useListing } from "./list";

const rare = ["method", "host", "http_status", "entry", "agent", "caller", "task", "code", "resolved"] as const;
const names = ["q", "status", "kind", "since", "until", ...rare] as const;

export function Actions({ route }: { route: Route }) {
  const filters = useFilters(route, names);
  const list = useListing(filters.of);
  const [open] = useState(() => rare.some((n) => filters.of[n]));
  const { of, set } = filters;
  return (
    <>
      <ListHead title="Actions" list={list} filtered={filters.some} />
      <form role="search" onSubmit={(e) => e.preventDefault()}>
        <div class="filters">
          <Text label="Search" type="search" value={of.q} placeholder="Host, path, agent, caller or id" onChange={set("q")} />
          <Select label="Status" value={of.status} options={["open", ...statuses]} any="any" onChange={set("status")} />
          <Select label="Kind" value={of.kind} options={of.kind.includes(",") ? [of.kind, ...kinds] : kinds} any="any" onChange={set("kind")} />
          <Range of={of} put={filters.put} />
        </div>
        <details class="more-filters" open={open}>
          <summary>More filters</summary>
          <div class="filters">
            <Select label="Method" value={of.method} options={methods} any="any" onChange={set("method")} />
            <Text label="Host" value={of.host} placeholder="api.example.com" onChange={set("host")} />
            <Text label="HTTP status" value={of.http_status} placeholder="404 or 5xx" onChange={set("http_status")} />
            <Text label="Entry" value={of.entry} onChange={set("entry")} />
            <Text label="Agent" value={of.agent} onChange={set("agent")} />
            <Text label="Caller" value={of.caller} onChange={set("caller")} />
            <Text label="Task" value={of.task} placeholder="full id" onChange={set("task")} />
            <Text label="Code" value={of.code} placeholder="DENY_HOST" onChange={(v) => set("code")(v.toUpperCase())} />
            <Select label="Resolved" value={of.resolved} options={["true", "false"]} any="any" onChange={set("resolved")} />
          </div>
        </details>
      </form>
      <Statuses filters={of} status={of.status} choose={set("status")} />
      <Listed list={list} to="actions" what="actions" filtered={filters.some} onAll={filters.clear}>
        <Empty title="No actions yet.">
          Send a call: <code>weir exec GET http://localhost:8080/</code>. The list shows it when Weir accepts it.
        </Empty>
      </Listed>
    </>
  );
}
