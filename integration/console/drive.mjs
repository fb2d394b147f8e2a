// Drives a browser as a test says: reads one JSON document a line, {n, op, page, …}, and answers
// each with {n, value} or {n, error}. Whatever an operation needs to see it waits for.
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [executablePath] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const patience = 60_000;
const browser = await chromium.launch({ executablePath, timeout: 180_000, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });
const pages = new Map();

// What went wrong in a page, or out of it. A refusal is no fault of the page.
function watch(page, origin) {
  const wrong = [];
  page.on("pageerror", (e) => wrong.push("error: " + e.message));
  page.on("console", (m) => {
    if (m.type() === "error" && !m.text().startsWith("Failed to load resource")) wrong.push("console: " + m.text());
  });
  page.on("request", (r) => {
    if (!r.url().startsWith(origin) && !/^(blob|data):/.test(r.url())) wrong.push("request: " + r.url());
  });
  return wrong;
}

const find = ({ page, role, name, label, text, css, within }) => {
  let at = pages.get(page).page;
  if (within) at = at.locator(within);
  if (role) return at.getByRole(role, name === undefined ? {} : { name, exact: true }).first();
  if (label) return at.getByLabel(label, { exact: true }).first();
  if (css) return at.locator(css).first();
  return at.getByText(text).first();
};

const ops = {
  async open({ page, url, options }) {
    const context = await browser.newContext({ ...options, acceptDownloads: true });
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const p = await context.newPage();
    p.setDefaultTimeout(patience);
    pages.set(page, { page: p, wrong: watch(p, new URL(url).origin + "/") });
    await p.goto(url);
  },
  async go({ page, hash }) {
    await pages.get(page).page.evaluate((h) => (location.hash = h), hash);
  },
  async reload({ page }) {
    await pages.get(page).page.reload();
  },
  click: (a) => find(a).click(),
  press: ({ page, key }) => pages.get(page).page.keyboard.press(key),
  fill: (a) => find(a).fill(a.value),
  select: (a) => find(a).selectOption(a.value),
  see: (a) => find(a).waitFor({ state: "visible" }),
  gone: (a) => find(a).waitFor({ state: "hidden" }),
  text: async (a) => (await find(a).textContent()) ?? "",
  value: (a) => find(a).inputValue(),
  disabled: (a) => find(a).isDisabled(),
  count: ({ page, css }) => pages.get(page).page.locator(css).count(),
  clipboard: ({ page }) => pages.get(page).page.evaluate(() => navigator.clipboard.readText()),
  evaluate: ({ page, script, value }) => pages.get(page).page.evaluate(`(${script})(${JSON.stringify(value ?? null)})`),
  async download(a) {
    const p = pages.get(a.page).page;
    const [file] = await Promise.all([p.waitForEvent("download"), find(a).click()]);
    return readFileSync(await file.path(), "utf8");
  },
  cookies: ({ page }) => pages.get(page).page.context().cookies(),
  wrong: ({ page }) => pages.get(page).wrong,
  async axe({ page }) {
    const p = pages.get(page).page;
    await p.evaluate(axe);
    const found = await p.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    return found.violations
      .filter((v) => v.impact === "serious" || v.impact === "critical")
      .map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html).slice(0, 3).join(" ")}`);
  },
  // Requests for an address that have not a header are given this answer in place of the server's.
  async instead({ page, glob, without, status, body }) {
    await pages.get(page).page.route(glob, (r) => (r.request().headers()[without] ? r.continue() : r.fulfill({ status, contentType: "application/problem+json", body })));
  },
  async settle({ page }) {
    await pages.get(page).page.waitForLoadState("networkidle", { timeout: 3000 }).catch(() => undefined);
  },
  async shot({ page, path }) {
    await pages.get(page).page.screenshot({ path });
  },
  async close({ page }) {
    await pages.get(page).page.context().close();
    pages.delete(page);
  },
};

const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
say({ n: 0, value: browser.version() });
const asked = createInterface({ input: process.stdin });
asked.on("line", async (line) => {
  const { n, op, ...args } = JSON.parse(line);
  try {
    say({ n, value: (await ops[op](args)) ?? null });
  } catch (e) {
    const page = pages.get(args.page)?.page;
    const shown = op === "open" || !page ? "" : "\n" + (await page.locator("body").innerText({ timeout: 1000 }).catch(() => ""));
    say({ n, error: String(e.message ?? e) + shown });
  }
});
asked.on("close", async () => {
  await browser.close();
  process.exit(0);
});
