// viem against a node: node viem.mjs HTTP WS KEY
import { createPublicClient, createWalletClient, defineChain, http as httpTransport, parseGwei, webSocket, BaseError, ContractFunctionRevertedError } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { args, expect, once, pause, run, sample } from "./check.mjs";

const { http, ws, key } = args();
const account = privateKeyToAccount(key);
const to = "0x00000000000000000000000000000000000c11e1";
const heads = once();
const logs = once();
let client, socket, wallet, address, receipt;

await run("viem", [
  ["connect", async () => {
    const id = await createPublicClient({ transport: httpTransport(http) }).getChainId();
    const chain = defineChain({ id, name: "bornode", nativeCurrency: { name: "Unit", symbol: "UNIT", decimals: 18 }, rpcUrls: { default: { http: [http], webSocket: [ws] } } });
    client = createPublicClient({ chain, transport: httpTransport(http), pollingInterval: 200 });
    socket = createPublicClient({ chain, transport: webSocket(ws) });
    wallet = createWalletClient({ account, chain, transport: httpTransport(http) });
    expect((await client.getBalance({ address: account.address })) > 0n, `account ${account.address} has no funds`);
    return `chain ${id}, block ${await client.getBlockNumber()}`;
  }],
  ["subscribe to heads", async () => {
    socket.watchBlocks({ onBlock: (b) => heads.done(b.number), onError: (e) => console.error(e) });
    await socket.getBlockNumber();
  }],
  ["fees", async () => {
    const fees = await client.estimateFeesPerGas();
    return `max ${fees.maxFeePerGas} tip ${fees.maxPriorityFeePerGas}`;
  }],
  ["transfer", async () => {
    const before = await client.getBalance({ address: to });
    const hash = await wallet.sendTransaction({ to, value: parseGwei("1") });
    receipt = await client.waitForTransactionReceipt({ hash });
    expect(receipt.status === "success", "the transfer failed");
    expect((await client.getBalance({ address: to })) - before === parseGwei("1"), "the balance did not grow by the value");
    return `block ${receipt.blockNumber}`;
  }],
  ["block", async () => {
    const block = await client.getBlock({ blockHash: receipt.blockHash, includeTransactions: true });
    expect(block.transactions.some((t) => t.hash === receipt.transactionHash), "the block lacks the transfer");
    return block.hash;
  }],
  ["deploy", async () => {
    const hash = await wallet.deployContract({ abi: sample.abi, bytecode: sample.bytecode, args: [5n] });
    address = (await client.waitForTransactionReceipt({ hash })).contractAddress;
    expect((await client.readContract({ address, abi: sample.abi, functionName: "value" })) === 5n, "the constructor did not run");
    return address;
  }],
  ["subscribe to logs", async () => {
    socket.watchContractEvent({ address, abi: sample.abi, eventName: "Stored", onLogs: (l) => logs.done(l[0].args), onError: (e) => console.error(e) });
    await socket.getBlockNumber();
  }],
  ["call", async () => {
    const { request } = await client.simulateContract({ account, address, abi: sample.abi, functionName: "store", args: [43n, "by viem"] });
    receipt = await client.waitForTransactionReceipt({ hash: await wallet.writeContract(request) });
    expect((await client.readContract({ address, abi: sample.abi, functionName: "value" })) === 43n, "the value was not stored");
    return `gas ${receipt.gasUsed}`;
  }],
  ["revert reasons", async () => {
    const fail = (v) => client.simulateContract({ account, address, abi: sample.abi, functionName: "store", args: [v, ""] }).then(
      () => null,
      (e) => (e instanceof BaseError ? e.walk((x) => x instanceof ContractFunctionRevertedError) : null),
    );
    const reason = await fail(13n);
    expect(reason?.reason === "thirteen is refused", `reason is ${reason?.reason}`);
    const custom = await fail(2000n);
    expect(custom?.data?.errorName === "TooLarge" && custom.data.args[0] === 2000n, "custom error is not decoded");
  }],
  ["logs", async () => {
    const found = await client.getContractEvents({ address, abi: sample.abi, eventName: "Stored", args: { by: account.address }, fromBlock: receipt.blockNumber, toBlock: receipt.blockNumber });
    expect(found.length === 1 && found[0].args.value === 43n && found[0].args.note === "by viem", "the log is not found");
  }],
  ["head received", async () => `block ${await heads.promise}`],
  ["log received", async () => {
    const seen = await logs.promise;
    expect(seen.by === account.address && seen.value === 43n && seen.note === "by viem", "another log came");
  }],
  ["finalized", async () => {
    for (;;) {
      const block = await client.getBlock({ blockTag: "finalized" });
      if (block.number >= receipt.blockNumber) {
        expect((await client.getBlock({ blockNumber: receipt.blockNumber })).hash === receipt.blockHash, "the final block is another one");
        return `block ${block.number}`;
      }
      await pause(100);
    }
  }],
]);
