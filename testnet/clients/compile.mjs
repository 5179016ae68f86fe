// Compiles a contract with npm's solc: node compile.mjs [FILE.sol OUT.json]. OUT.json gets {abi, bytecode} of the contract
// that is named as the file. Without arguments it is Sample.sol, whose Sample.json has to be made again after a change.
import { readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import solc from "solc";

const here = (f) => fileURLToPath(new URL(f, import.meta.url));
const [source = here("Sample.sol"), target = here("Sample.json")] = process.argv.slice(2);
const name = basename(source, ".sol");
const out = JSON.parse(
  solc.compile(
    JSON.stringify({
      language: "Solidity",
      sources: { [basename(source)]: { content: readFileSync(source, "utf8") } },
      settings: { evmVersion: "osaka", optimizer: { enabled: true, runs: 200 }, metadata: { bytecodeHash: "none" }, outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } } },
    }),
  ),
);
const bad = (out.errors ?? []).filter((e) => e.severity === "error");
const contract = out.contracts?.[basename(source)]?.[name];
if (bad.length || !contract) {
  console.error(bad.map((e) => e.formattedMessage).join("\n") || `${source} has no contract ${name}: name the file as the contract`);
  process.exit(1);
}
writeFileSync(target, JSON.stringify({ abi: contract.abi, bytecode: "0x" + contract.evm.bytecode.object }, null, 1) + "\n");
console.log(`wrote ${target}`);
