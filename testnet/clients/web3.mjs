// web3.js 4 against a node: node web3.mjs HTTP WS KEY
import { Web3 } from "web3";
import { args, expect, once, pause, run, sample } from "./check.mjs";

const { http, ws, key } = args();
const web3 = new Web3(http);
const socket = new Web3(ws);
web3.eth.transactionPollingInterval = 200;
const to = "0x00000000000000000000000000000000000c11e3";
const heads = once();
const logs = once();
const pending = once();
let me, contract, receipt, sent;

// reason is the error that a call ends with.
const reason = (call) => call.then(() => null, (e) => e);

await run("web3", [
  ["connect", async () => {
    me = web3.eth.accounts.wallet.add(key)[0].address;
    expect((await web3.eth.getBalance(me)) > 0n, `account ${me} has no funds`);
    expect((await web3.eth.getNodeInfo()).startsWith("bornode"), "another node answers");
    return `chain ${await web3.eth.getChainId()}, network ${await web3.eth.net.getId()}, block ${await web3.eth.getBlockNumber()}`;
  }],
  ["subscribe to heads", async () => {
    const sub = await socket.eth.subscribe("newBlockHeaders");
    sub.on("data", (h) => heads.done(h.number));
    sub.on("error", (e) => console.error(e));
  }],
  ["subscribe to pending", async () => {
    const sub = await socket.eth.subscribe("pendingTransactions");
    sub.on("data", (hash) => sent?.then((h) => h === hash && pending.done(hash)));
    sub.on("error", (e) => console.error(e));
  }],
  ["fees", async () => {
    const fees = await web3.eth.calculateFeeData();
    expect(fees.gasPrice !== undefined, "no gas price");
    const history = await web3.eth.getFeeHistory(4, "latest", [25, 75]);
    expect(history.baseFeePerGas.length >= 2 && history.reward.every((r) => r.length === 2), "the fee history is cut short");
    return `price ${fees.gasPrice} max ${fees.maxFeePerGas}`;
  }],
  ["transfer", async () => {
    const before = await web3.eth.getBalance(to);
    sent = new Promise((resolve) => {
      receipt = web3.eth.sendTransaction({ from: me, to, value: 1_000_000_000n }).on("transactionHash", resolve);
    });
    receipt = await receipt;
    expect(receipt.status === 1n, "the transfer failed");
    expect((await web3.eth.getBalance(to)) - before === 1_000_000_000n, "the balance did not grow by the value");
    return `block ${receipt.blockNumber}`;
  }],
  ["pending received", async () => pending.promise],
  ["typed transactions", async () => {
    const price = await web3.eth.getGasPrice();
    const base = { from: me, to, value: 1n, gas: 60_000n };
    for (const [type, fields] of [
      ["0x0", { gasPrice: price }],
      ["0x1", { gasPrice: price, accessList: [{ address: to, storageKeys: ["0x" + "0".repeat(64)] }] }],
      ["0x2", { maxFeePerGas: price, maxPriorityFeePerGas: 0n }],
    ]) {
      const r = await web3.eth.sendTransaction({ ...base, ...fields, type });
      expect(r.status === 1n && BigInt(r.type) === BigInt(type), `type ${type} came back as ${r.type}`);
    }
  }],
  ["deploy", async () => {
    contract = await new web3.eth.Contract(sample.abi).deploy({ data: sample.bytecode, arguments: [5] }).send({ from: me });
    expect((await contract.methods.value().call()) === 5n, "the constructor did not run");
    return contract.options.address;
  }],
  ["subscribe to logs", async () => {
    const listening = new socket.eth.Contract(sample.abi, contract.options.address);
    const sub = listening.events.Stored({ filter: { by: me } });
    sub.on("data", (e) => logs.done(e.returnValues));
    sub.on("error", (e) => console.error(e));
    await socket.eth.getBlockNumber();
  }],
  ["call", async () => {
    receipt = await contract.methods.store(45, "by web3").send({ from: me });
    expect((await contract.methods.value().call()) === 45n, "the value was not stored");
    expect(receipt.events.Stored.returnValues.note === "by web3", "the receipt lacks the event");
    return `gas ${receipt.gasUsed}`;
  }],
  ["revert reasons", async () => {
    const words = await reason(contract.methods.store(13, "").call({ from: me }));
    expect(JSON.stringify([words?.message, words?.cause?.message, words?.innerError?.message]).includes("thirteen is refused"), `reason is ${words?.message}`);
    const custom = await reason(contract.methods.store(2000, "").call({ from: me }));
    const e = custom?.innerError ?? custom?.cause;
    expect(e?.errorName === "TooLarge" && e.errorArgs.value === 2000n, "custom error is not decoded");
  }],
  ["past events", async () => {
    const found = await contract.getPastEvents("Stored", { filter: { by: me }, fromBlock: receipt.blockNumber, toBlock: receipt.blockNumber });
    expect(found.length === 1 && found[0].returnValues.value === 45n, "the event is not found");
  }],
  ["batch", async () => {
    const batch = new web3.BatchRequest();
    const asked = [["eth_blockNumber", []], ["eth_getBalance", [me, "latest"]], ["eth_doesNotExist", []]];
    const waits = asked.map(([method, params], id) => batch.add({ jsonrpc: "2.0", id: id + 1, method, params }).then((v) => v, (e) => e));
    await batch.execute();
    const [number, balance, unknown] = await Promise.all(waits);
    expect(BigInt(number.result ?? number) > 0n && BigInt(balance.result ?? balance) > 0n, "the batch is not answered");
    expect(JSON.stringify(unknown.error ?? unknown.innerError ?? unknown).includes("-32601") || unknown.code === -32601, `an unknown method gives ${JSON.stringify(unknown)}`);
  }],
  ["many in order", async () => {
    const first = await web3.eth.getTransactionCount(me, "pending");
    const price = await web3.eth.getGasPrice();
    const hashes = await Promise.all(Array.from({ length: 20 }, async (_, i) => {
      const tx = await web3.eth.accounts.signTransaction({ to, value: 1n, gas: 21_000n, gasPrice: price, nonce: first + BigInt(i), chainId: await web3.eth.getChainId() }, key);
      return (await web3.eth.sendSignedTransaction(tx.rawTransaction)).transactionHash;
    }));
    expect((await web3.eth.getTransactionCount(me)) === first + 20n && new Set(hashes).size === 20, "some are missing");
  }],
  ["head received", async () => `block ${await heads.promise}`],
  ["log received", async () => {
    const seen = await logs.promise;
    expect(seen.by === me && seen.value === 45n && seen.note === "by web3", "another log came");
  }],
  ["finalized", async () => {
    for (;;) {
      const block = await web3.eth.getBlock("finalized");
      if (block.number >= receipt.blockNumber) {
        expect((await web3.eth.getBlock(receipt.blockNumber)).hash === receipt.blockHash, "the final block is another one");
        return `block ${block.number}`;
      }
      await pause(100);
    }
  }],
]);
