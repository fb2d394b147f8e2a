// Call an API directly or through Weir, with the same code.
//
// Usage: node dist/api.js PATH [NAME=VALUE…]
//
// API_URL is the address of the API: its own, or http://127.0.0.1:8092/via/ENTRY of Weir. API_TOKEN
// is the API's key, or a token of Weir, which then adds the key. With fields, the program sends a form.
import { argv, env, exit } from "node:process";

const [path, ...fields] = argv.slice(2);
if (!path || !env.API_URL) {
  console.error("usage: API_URL=URL node dist/api.js PATH [NAME=VALUE…]");
  exit(2);
}
const split = (field: string): [string, string] => [field.slice(0, field.indexOf("=")), field.slice(field.indexOf("=") + 1)];
const answer = await fetch(env.API_URL + path, {
  headers: env.API_TOKEN ? { Authorization: `Bearer ${env.API_TOKEN}` } : {},
  ...(fields.length > 0 && { method: "POST", body: new URLSearchParams(fields.map(split)) }),
});
console.log(answer.status, await answer.text());
const refusal = answer.headers.get("Weir-Refused"); // Weir's own answer, not the API's
if (refusal) {
  console.error(`Weir refused the call: ${refusal}`);
  exit(1);
}
