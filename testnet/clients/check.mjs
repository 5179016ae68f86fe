// What the scripts share: arguments, steps, an end with a reason.
import { readFileSync } from "node:fs";

export const sample = JSON.parse(readFileSync(new URL("Sample.json", import.meta.url), "utf8"));
export const limitMillis = Number(process.env.CLIENT_TIMEOUT_MS ?? 120_000);

export function args() {
  const [http, ws, key] = process.argv.slice(2);
  if (!http || !ws || !/^0x[0-9a-fA-F]{64}$/.test(key ?? "")) {
    console.error(`usage: node ${process.argv[1].split("/").pop()} http://host:port ws://host:port 0xPRIVATEKEY`);
    process.exit(2);
  }
  return { http, ws, key };
}

export function expect(condition, what) {
  if (!condition) throw new Error(what);
}

// within ends a wait that lasts too long; it says what was waited for.
export function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing after ${limitMillis} ms`)), limitMillis);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// once is a promise with its resolver: for events.
export function once() {
  let done;
  const promise = new Promise((resolve) => (done = resolve));
  return { promise, done };
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// run executes the steps in order, one line each, and ends the process.
export async function run(client, steps) {
  for (const [name, step] of steps) {
    try {
      const result = await within(step(), name);
      console.log(`ok ${client} ${name}${result === undefined ? "" : ": " + result}`);
    } catch (err) {
      console.log(`FAILED ${client} ${name}: ${err.shortMessage ?? err.message}`);
      console.error(err);
      process.exit(1);
    }
  }
  process.exit(0);
}
