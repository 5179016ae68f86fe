// A Hardhat 2 project for bornode. The network is the node named by BORNODE_HTTP, the account the key in BORNODE_KEY.
require("@nomicfoundation/hardhat-ethers");
const { subtask } = require("hardhat/config");
const { TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD } = require("hardhat/builtin-tasks/task-names");

// The compiler is the one npm installed: nothing is fetched from a server of compilers.
subtask(TASK_COMPILE_SOLIDITY_GET_SOLC_BUILD, async () => {
  const compilerPath = require.resolve("solc/soljson.js");
  const { version } = require("solc/package.json");
  return { compilerPath, isSolcJs: true, version, longVersion: require("solc").version() };
});

const { BORNODE_HTTP = "http://127.0.0.1:8545", BORNODE_KEY, BORNODE_OUT = ".", CLIENT_TIMEOUT_MS = "120000" } = process.env;

module.exports = {
  solidity: {
    version: require("solc/package.json").version,
    settings: { evmVersion: "osaka", optimizer: { enabled: true, runs: 200 } },
  },
  defaultNetwork: "bornode",
  networks: { bornode: { url: BORNODE_HTTP, accounts: BORNODE_KEY ? [BORNODE_KEY] : [] } },
  paths: { artifacts: `${BORNODE_OUT}/artifacts`, cache: `${BORNODE_OUT}/cache` },
  mocha: { timeout: Number(CLIENT_TIMEOUT_MS) },
};
