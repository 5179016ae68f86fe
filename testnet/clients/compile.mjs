// Compiles Sample.sol into Sample.json: {abi, bytecode}. Run it after a change of the contract.
import { readFileSync, writeFileSync } from "node:fs";
import solc from "solc";

const here = (f) => new URL(f, import.meta.url);
const out = JSON.parse(
  solc.compile(
    JSON.stringify({
      language: "Solidity",
      sources: { "Sample.sol": { content: readFileSync(here("Sample.sol"), "utf8") } },
      settings: { evmVersion: "osaka", optimizer: { enabled: true, runs: 200 }, metadata: { bytecodeHash: "none" }, outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } } },
    }),
  ),
);
const bad = (out.errors ?? []).filter((e) => e.severity === "error");
if (bad.length) {
  console.error(bad.map((e) => e.formattedMessage).join("\n"));
  process.exit(1);
}
const c = out.contracts["Sample.sol"].Sample;
writeFileSync(here("Sample.json"), JSON.stringify({ abi: c.abi, bytecode: "0x" + c.evm.bytecode.object }, null, 1) + "\n");
console.log("wrote Sample.json");
