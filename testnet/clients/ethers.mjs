// ethers v6 against a node: node ethers.mjs HTTP WS KEY
import { Contract, ContractFactory, JsonRpcProvider, Wallet, WebSocketProvider, isError, parseUnits } from "ethers";
import { args, expect, once, pause, run, sample } from "./check.mjs";

const { http, ws, key } = args();
const provider = new JsonRpcProvider(http, undefined, { polling: true, pollingInterval: 200, cacheTimeout: -1 }); // its cache of 250 ms is older than a block here
const socket = new WebSocketProvider(ws);
const wallet = new Wallet(key, provider);
const to = "0x00000000000000000000000000000000000c11e0";
const heads = once();
const logs = once();
let contract, receipt, seen;

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
  ["fees", async () => {
    const fees = await provider.getFeeData();
    expect(fees.gasPrice !== null, "no gas price"); // with a base fee of 0 ethers leaves the EIP-1559 fees out
    return `price ${fees.gasPrice} max ${fees.maxFeePerGas}`;
  }],
  ["transfer", async () => {
    const before = await provider.getBalance(to);
    const tx = await wallet.sendTransaction({ to, value: parseUnits("1", "gwei") });
    receipt = await tx.wait(1);
    expect(receipt.status === 1, "the transfer failed");
    expect((await provider.getBalance(to)) - before === parseUnits("1", "gwei"), "the balance did not grow by the value");
    return `block ${receipt.blockNumber}`;
  }],
  ["block", async () => {
    const block = await provider.getBlock(receipt.blockHash, true);
    expect(block.hash === receipt.blockHash && block.prefetchedTransactions.some((t) => t.hash === receipt.hash), "the block lacks the transfer");
    return block.hash;
  }],
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
