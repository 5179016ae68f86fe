#!/usr/bin/env node
// npm's Solidity compiler behind the native compiler's arguments, as far as forge uses them: --version, and
// --standard-json with the input on stdin and all sources in it.
const path = require("node:path");
const { createRequire } = require("node:module");
const solc = createRequire(path.join(__dirname, "..", "package.json"))("solc");

if (process.argv.includes("--version")) {
  console.log(`solc, the solidity compiler commandline interface\nVersion: ${solc.version()}`);
} else if (process.argv.includes("--standard-json")) {
  process.stdout.write(solc.compile(require("node:fs").readFileSync(0, "utf8")));
} else {
  console.error(`solc.cjs: ${process.argv.slice(2).join(" ")}: only --version and --standard-json are understood`);
  process.exit(2);
}
