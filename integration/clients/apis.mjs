// Calls an API with a client library, as an agent's program does, and prints one JSON document.
//
//   node apis.mjs octokit BASE TOKEN
//   node apis.mjs stripe BASE TOKEN [PROXY]
//   node apis.mjs undici PROXY TOKEN URL…
//
// BASE stands for https://api.github.com or https://api.stripe.com.
import { Octokit } from "@octokit/core";
import Stripe from "stripe";

const [client, base, token, ...urls] = process.argv.slice(2);

/** What a call throws, as far as callers read it. */
const failure = (call) => call.then(
  () => "no error",
  (e) => ({ name: e.constructor.name, type: e.type, code: e.code, status: e.status ?? e.statusCode, message: e.message }),
);

const clients = {
  async octokit() {
    const octokit = new Octokit({ baseUrl: base, auth: token });
    const repo = { owner: "acme", repo: "shop" };
    const user = await octokit.request("GET /user");
    const pages = [];
    for (let page = 1, more = true; more; page++) {
      const { data, headers } = await octokit.request("GET /repos/{owner}/{repo}/issues", { ...repo, per_page: 2, page });
      pages.push(data.map((issue) => issue.number));
      more = headers.link?.includes('rel="next"');
    }
    const { headers } = await octokit.request("GET /repos/{owner}/{repo}", repo);
    const created = await octokit.request("POST /repos/{owner}/{repo}/issues", { ...repo, title: "Größe 5 is sold out" });
    const archive = await octokit.request("GET /repos/{owner}/{repo}/tarball/{ref}", { ...repo, ref: "main" });
    return {
      login: user.data.login,
      action: user.headers["weir-action-id"],
      pages,
      unchanged: await failure(octokit.request("GET /repos/{owner}/{repo}", { ...repo, headers: { "if-none-match": headers.etag } })),
      created: { status: created.status, title: created.data.title },
      archive: Buffer.from(archive.data).toString("base64"),
      absent: await failure(octokit.request("GET /repos/acme/none")),
    };
  },
  async stripe() {
    // The package has no setting for a path in front of its own: its HTTP client adds it.
    const { ProxyAgent, fetch: send } = await import("undici");
    const options = urls[0] ? { dispatcher: new ProxyAgent(urls[0]) } : {};
    const httpClient = Stripe.createFetchHttpClient((url, init) => send(base + new URL(url).pathname + new URL(url).search, { ...init, ...options }));
    const stripe = new Stripe(token, { httpClient, maxNetworkRetries: 0 });
    const fields = { email: "ann+shop@example.com", name: "Ann & Söhne", metadata: { order: "7" } };
    const created = await stripe.customers.create(fields, { idempotencyKey: "customer-7" });
    const again = await stripe.customers.create(fields, { idempotencyKey: "customer-7" });
    await stripe.customers.create({ email: "bob@example.com" }, { idempotencyKey: "customer-8" });
    const all = [];
    for await (const customer of stripe.customers.list({ limit: 1 })) {
      all.push(customer.id);
    }
    const declined = await failure(stripe.charges.create({ amount: 700, currency: "eur", source: "tok_declined" }));
    await options.dispatcher?.close();
    return {
      created: { id: created.id, email: created.email, name: created.name, order: created.metadata.order },
      again: again.id,
      all,
      declined,
    };
  },
  async undici() {
    const { ProxyAgent, fetch: proxied } = await import("undici"); // it changes Node's own fetch
    const dispatcher = new ProxyAgent({ uri: base, token: `Bearer ${token}` });
    const answers = [];
    for (const url of urls) {
      const answer = await proxied(url, { dispatcher });
      answers.push({ status: answer.status, text: await answer.text() });
    }
    await dispatcher.close();
    return { answers };
  },
};

console.log(JSON.stringify(await clients[client]()));
