// ethers v6 against a node: node ethers.mjs HTTP WS KEY
import { Contract, ContractFactory, JsonRpcProvider, NonceManager, Wallet, WebSocketProvider, isError, parseUnits } from "ethers";
import { args, expect, once, pause, run, sample } from "./check.mjs";

const { http, ws, key } = args();
const provider = new JsonRpcProvider(http, undefined, { polling: true, pollingInterval: 200, cacheTimeout: -1 }); // its cache of 250 ms is older than a block here
const socket = new WebSocketProvider(ws);
const wallet = new Wallet(key, provider);
const to = "0x00000000000000000000000000000000000c11e0";
const heads = once();
const logs = once();
const pending = once();
let contract, receipt, seen, sent;

await run("ethers", [
  ["connect", async () => {
    const network = await provider.getNetwork();
    const balance = await provider.getBalance(wallet.address);
    expect(balance > 0n, `account ${wallet.address} has no funds`);
    return `chain ${network.chainId}, block ${await provider.getBlockNumber()}`;
  }],
  ["subscribe to heads", async () => {
    await socket.on("block", (n) => heads.done(n));
    await socket.getBlockNumber();
  }],
  ["subscribe to pending", async () => {
    await socket.on("pending", (hash) => sent?.then((tx) => tx.hash === hash && pending.done(hash)));
    await socket.getBlockNumber();
  }],
  ["fees", async () => { // what a browser's wallet asks before it shows a transaction
    const fees = await provider.getFeeData();
    expect(fees.gasPrice !== null, "no gas price"); // with a base fee of 0 ethers leaves the EIP-1559 fees out
    const history = await provider.send("eth_feeHistory", ["0x5", "latest", [10, 50, 90]]);
    const blocks = history.gasUsedRatio.length;
    expect(blocks >= 1 && history.baseFeePerGas.length === blocks + 1 && history.reward.every((r) => r.length === 3), "the fee history is cut short");
    expect(BigInt(await provider.send("eth_maxPriorityFeePerGas", [])) >= 0n, "no tip is suggested");
    const gas = await provider.estimateGas({ from: wallet.address, to, value: 1n });
    expect(gas === 21_000n, `a transfer is estimated at ${gas} gas`);
    return `price ${fees.gasPrice} max ${fees.maxFeePerGas}`;
  }],
  ["transfer", async () => {
    const before = await provider.getBalance(to);
    sent = wallet.sendTransaction({ to, value: parseUnits("1", "gwei") });
    receipt = await (await sent).wait(1);
    expect(receipt.status === 1, "the transfer failed");
    expect((await provider.getBalance(to)) - before === parseUnits("1", "gwei"), "the balance did not grow by the value");
    return `block ${receipt.blockNumber}`;
  }],
  ["block", async () => {
    const block = await provider.getBlock(receipt.blockHash, true);
    expect(block.hash === receipt.blockHash && block.prefetchedTransactions.some((t) => t.hash === receipt.hash), "the block lacks the transfer");
    return block.hash;
  }],
  ["pending received", async () => pending.promise],
  ["deploy", async () => {
    contract = await new ContractFactory(sample.abi, sample.bytecode, wallet).deploy(5n);
    await contract.waitForDeployment();
    expect((await contract.value()) === 5n, "the constructor did not run");
    return await contract.getAddress();
  }],
  ["subscribe to logs", async () => {
    const listening = new Contract(await contract.getAddress(), sample.abi, socket);
    await listening.on("Stored", (by, value, note) => logs.done({ by, value, note }));
    await socket.getBlockNumber();
  }],
  ["call", async () => {
    const tx = await contract.store(42n, "by ethers");
    receipt = await tx.wait(1);
    expect((await contract.value()) === 42n, "the value was not stored");
    return `gas ${receipt.gasUsed}`;
  }],
  ["revert reasons", async () => {
    const reason = await contract.store.staticCall(13n, "").then(() => null, (e) => e);
    expect(isError(reason, "CALL_EXCEPTION") && reason.reason === "thirteen is refused", `reason is ${reason?.reason}`);
    const custom = await contract.store.staticCall(2000n, "").then(() => null, (e) => e);
    expect(custom?.revert?.name === "TooLarge" && custom.revert.args[0] === 2000n, "custom error is not decoded");
  }],
  ["logs", async () => {
    const found = await contract.queryFilter(contract.filters.Stored(wallet.address), receipt.blockNumber, receipt.blockNumber);
    expect(found.length === 1 && found[0].args.value === 42n && found[0].args.note === "by ethers", "the log is not found");
  }],
  ["polled filter", async () => {
    const id = await provider.send("eth_newFilter", [{ fromBlock: "0x" + receipt.blockNumber.toString(16), address: await contract.getAddress(), topics: [contract.interface.getEvent("Stored").topicHash] }]);
    await (await contract.store(43n, "polled")).wait(1);
    let changes = [];
    while (changes.length === 0) changes = await provider.send("eth_getFilterChanges", [id]);
    expect(contract.interface.parseLog(changes[0]).args.note === "polled", "another log came");
    expect((await provider.send("eth_getFilterChanges", [id])).length === 0, "a change came twice");
    expect((await provider.send("eth_getFilterLogs", [id])).length === 2, "the filter's logs are not found");
    expect(await provider.send("eth_uninstallFilter", [id]), "the filter is not known");
  }],
  ["typed transactions", async () => {
    const address = await contract.getAddress();
    const { gasPrice } = await provider.getFeeData();
    const { accessList } = await provider.send("eth_createAccessList", [{ from: wallet.address, to: address, data: contract.interface.encodeFunctionData("store", [1n, ""]) }]);
    expect(accessList.length === 1, "the access list lacks the contract");
    const all = [
      { type: 0, gasPrice },
      { type: 1, gasPrice, accessList },
      { type: 2, maxFeePerGas: gasPrice * 2n, maxPriorityFeePerGas: 0n, accessList },
    ];
    for (const t of all) {
      receipt = await (await contract.store(1n, "typed", t)).wait(1);
      expect(receipt.status === 1 && receipt.type === t.type, `type ${t.type} came back as ${receipt.type}`);
    }
    const other = Wallet.createRandom(); // without money: it lends its address to the contract's code
    const authorization = await other.authorize({ address, chainId: (await provider.getNetwork()).chainId, nonce: 0 });
    const lent = contract.attach(other.address);
    receipt = await (await lent.store(7n, "typed", { type: 4, authorizationList: [authorization], maxFeePerGas: gasPrice * 2n, maxPriorityFeePerGas: 0n })).wait(1);
    expect(receipt.status === 1 && receipt.type === 4, "type 4 failed");
    expect((await provider.getCode(other.address)) === "0xef0100" + address.slice(2).toLowerCase(), "the account has other code");
    expect((await lent.value()) === 7n, "the code did not act for the account");
  }],
  ["many in order", async () => {
    const manager = new NonceManager(wallet);
    const txs = await Promise.all(Array.from({ length: 40 }, () => manager.sendTransaction({ to, value: 1n, gasLimit: 21_000n })));
    const nonces = txs.map((tx) => tx.nonce);
    expect(new Set(nonces).size === 40 && Math.max(...nonces) - Math.min(...nonces) === 39, "nonces repeat");
    const receipts = await Promise.all(txs.map((tx) => tx.wait(1)));
    expect(receipts.every((r) => r.status === 1), "one failed");
    return `${new Set(receipts.map((r) => r.blockNumber)).size} blocks`;
  }],
  ["refusals", async () => {
    const why = (tx) => wallet.sendTransaction({ gasLimit: 21_000n, ...tx }).then(() => "accepted", (e) => e.code);
    const codes = [await why({ to, value: parseUnits("1", 30) }), await why({ to, nonce: 0 })];
    expect(codes.join() === "INSUFFICIENT_FUNDS,NONCE_EXPIRED", `codes are ${codes}`);
    const unknown = await provider.send("eth_doesNotExist", []).then(() => null, (e) => e.error?.code ?? e.code);
    expect(unknown === -32601 || unknown === "UNSUPPORTED_OPERATION", `an unknown method gives ${unknown}`);
  }],
  ["batch", async () => { // ethers sends what is asked in one moment as one batch
    const blocks = await Promise.all(Array.from({ length: 25 }, (_, i) => provider.getBlock(Math.max(0, receipt.blockNumber - i))));
    expect(blocks.every((b, i) => i === 0 || b.number === 0 || blocks[i - 1].parentHash === b.hash), "the blocks do not follow each other");
  }],
  ["trace", async () => {
    const call = await provider.send("debug_traceTransaction", [receipt.hash, { tracer: "callTracer", tracerConfig: { withLog: true } }]);
    expect(call.type === "CALL" && call.logs?.length === 1 && BigInt(call.gasUsed) === receipt.gasUsed, "the call is traced otherwise");
    const request = { from: wallet.address, to: await contract.getAddress(), data: contract.interface.encodeFunctionData("store", [99n, ""]) };
    const refusedCall = await provider.send("debug_traceCall", [{ ...request, data: contract.interface.encodeFunctionData("store", [13n, ""]) }, "latest", { tracer: "callTracer" }]);
    expect(refusedCall.revertReason === "thirteen is refused", `the traced call reverted with ${refusedCall.revertReason}`);
    const state = await provider.send("debug_traceCall", [request, "latest", { tracer: "prestateTracer", tracerConfig: { diffMode: true } }]);
    const slot = Object.values(state.post[request.to.toLowerCase()].storage);
    expect(slot.length === 1 && BigInt(slot[0]) === 99n, "the state after the call is not shown");
  }],
  ["head received", async () => `block ${await heads.promise}`],
  ["log received", async () => {
    seen = await logs.promise;
    expect(seen.by === wallet.address && seen.value === 42n && seen.note === "by ethers", "another log came");
  }],
  ["finalized", async () => {
    for (;;) {
      const block = await provider.getBlock("finalized");
      if (block && block.number >= receipt.blockNumber) {
        expect((await provider.getBlock(receipt.blockNumber)).hash === receipt.blockHash, "the final block is another one");
        return `block ${block.number}`;
      }
      await pause(100);
    }
  }],
]);
