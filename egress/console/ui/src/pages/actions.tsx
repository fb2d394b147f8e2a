import type { Route } from "../route";
import { Empty, Select, Text } from "../ui";
import { kinds, statuses } from "../vocabulary";
import { Listed, ListHead, useFilters, useListing } from "./list";

const names = ["status", "kind", "entry", "agent", "task", "code", "q"] as const;

export function Actions({ route }: { route: Route }) {
  const filters = useFilters(route, names);
  const list = useListing(filters.of);
  return (
    <>
      <ListHead title="Actions" list={list} filtered={filters.some} />
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <Text label="Id" type="search" value={filters.of.q} placeholder="Text of an id" onChange={filters.set("q")} />
        <Select label="Status" value={filters.of.status} options={["open", ...statuses]} any="any" onChange={filters.set("status")} />
        <Select label="Kind" value={filters.of.kind} options={kinds} any="any" onChange={filters.set("kind")} />
        <Text label="Entry" value={filters.of.entry} onChange={filters.set("entry")} />
        <Text label="Agent" value={filters.of.agent} onChange={filters.set("agent")} />
        <Text label="For task" value={filters.of.task} placeholder="its whole id" onChange={filters.set("task")} />
        <Text label="Code" value={filters.of.code} placeholder="DENY_HOST" onChange={(v) => filters.set("code")(v.toUpperCase())} />
      </form>
      <Listed list={list} to="actions" what="actions" filtered={filters.some} onAll={filters.clear}>
        <Empty title="No actions yet.">
          Send a call: <code>weir exec GET http://localhost:8080/</code>. The list shows it when Weir accepts it.
        </Empty>
      </Listed>
    </>
  );
}
