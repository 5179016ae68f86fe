// Compiles src/*.sol with the pinned solc and writes artefacts to the folder named by the first argument:
// <Name>.json with the ABI, the runtime code and the storage layout. The output depends on nothing but the sources,
// this file and package-lock.json.
"use strict";
const fs = require("fs");
const path = require("path");
const solc = require("solc");

const root = __dirname;
const out = process.argv[2];
const contracts = ["Producers", "Members", "Topics"];

const read = (name) => {
  const own = path.join(root, name);
  return fs.readFileSync(name.startsWith("src/") ? own : path.join(root, "node_modules", name), "utf8");
};

const input = {
  language: "Solidity",
  sources: Object.fromEntries(contracts.map((c) => [`src/${c}.sol`, { content: read(`src/${c}.sol`) }])),
  settings: {
    evmVersion: "osaka",
    viaIR: true,
    optimizer: { enabled: true, runs: 200 },
    metadata: { appendCBOR: false, bytecodeHash: "none" },
    outputSelection: { "*": { "*": ["abi", "evm.deployedBytecode.object", "storageLayout"] } },
  },
};

const imports = (name) => {
  try {
    return { contents: read(name) };
  } catch (e) {
    return { error: e.message };
  }
};

const result = JSON.parse(solc.compile(JSON.stringify(input), { import: imports }));
// 1878: the sources carry no licence line of their own. 5574: above the limit for deployment by transaction, which does
// not bind code that genesis or an upgrade puts in place.
const expected = ["1878", "5574"];
const foreign = (m) => m.severity === "warning" && m.sourceLocation && !m.sourceLocation.file.startsWith("src/");
const messages = (result.errors || []).filter((e) => !expected.includes(e.errorCode) && !foreign(e));
for (const m of messages) console.error(m.formattedMessage);
if (messages.length > 0) process.exit(1); // warnings too

for (const c of contracts) {
  const r = result.contracts[`src/${c}.sol`][c];
  const storage = r.storageLayout.storage.map((s) => ({ name: s.label, slot: Number(s.slot), offset: s.offset, type: s.type.replace(/\)\d+_/g, ")_") }));
  const artefact = { contract: c, compiler: solc.version(), abi: r.abi, runtime: "0x" + r.evm.deployedBytecode.object, storage };
  fs.writeFileSync(path.join(out, `${c}.json`), JSON.stringify(artefact, null, 1) + "\n");
  fs.writeFileSync(path.join(out, `${c}.abi`), JSON.stringify(r.abi)); // for the bindings' generator, not kept
}
