// viem against a node: node viem.mjs HTTP WS KEY
import {
  createPublicClient, createWalletClient, decodeErrorResult, defineChain, encodeFunctionData, http as httpTransport, isAddressEqual, nonceManager, parseGwei, webSocket,
  BaseError, ContractFunctionRevertedError, InsufficientFundsError, MethodNotFoundRpcError, NonceTooLowError, TransactionReceiptNotFoundError,
} from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { args, expect, once, pause, run, sample } from "./check.mjs";

const { http, ws, key } = args();
const account = privateKeyToAccount(key);
const to = "0x00000000000000000000000000000000000c11e1";
const heads = once();
const logs = once();
const pending = once();
let client, socket, wallet, address, receipt, sent;

const mined = async (hash) => client.waitForTransactionReceipt({ hash: await hash });

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
  ["subscribe to pending", async () => {
    socket.watchPendingTransactions({ onTransactions: (hashes) => sent?.then((h) => hashes.includes(h) && pending.done(h)), onError: (e) => console.error(e) });
    await socket.getBlockNumber();
  }],
  ["fees", async () => {
    const fees = await client.estimateFeesPerGas();
    const history = await client.getFeeHistory({ blockCount: 5, rewardPercentiles: [10, 50, 90] });
    expect(history.baseFeePerGas.length === history.gasUsedRatio.length + 1 && history.reward.every((r) => r.length === 3), "the fee history is cut short");
    expect((await client.estimateMaxPriorityFeePerGas()) >= 0n, "no tip is suggested");
    return `max ${fees.maxFeePerGas} tip ${fees.maxPriorityFeePerGas}`;
  }],
  ["transfer", async () => {
    const before = await client.getBalance({ address: to });
    sent = wallet.sendTransaction({ to, value: parseGwei("1") });
    receipt = await mined(sent);
    expect(receipt.status === "success", "the transfer failed");
    expect((await client.getBalance({ address: to })) - before === parseGwei("1"), "the balance did not grow by the value");
    return `block ${receipt.blockNumber}`;
  }],
  ["block", async () => {
    const block = await client.getBlock({ blockHash: receipt.blockHash, includeTransactions: true });
    expect(block.transactions.some((t) => t.hash === receipt.transactionHash), "the block lacks the transfer");
    return block.hash;
  }],
  ["pending received", async () => pending.promise],
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
  ["polled filters", async () => {
    const filters = await Promise.all([client.createContractEventFilter({ address, abi: sample.abi, eventName: "Stored" }), client.createBlockFilter(), client.createPendingTransactionFilter()]);
    const hash = await wallet.writeContract({ address, abi: sample.abi, functionName: "store", args: [44n, "polled"] });
    await mined(hash);
    const seen = [[], [], []];
    while (!(seen[0].length && seen[1].length && seen[2].includes(hash))) {
      for (const [i, filter] of filters.entries()) seen[i].push(...(await client.getFilterChanges({ filter })));
    }
    expect(seen[0].length === 1 && seen[0][0].args.note === "polled", "another log came");
    for (const filter of filters) expect(await client.uninstallFilter({ filter }), "a filter is not known");
  }],
  ["typed transactions", async () => {
    const data = encodeFunctionData({ abi: sample.abi, functionName: "store", args: [1n, "typed"] });
    const { accessList } = await client.createAccessList({ account, to: address, data });
    expect(accessList.length === 1, "the access list lacks the contract");
    const gasPrice = await client.getGasPrice();
    for (const t of [
      { type: "legacy", gasPrice },
      { type: "eip2930", gasPrice, accessList },
      { type: "eip1559", maxFeePerGas: gasPrice * 2n, maxPriorityFeePerGas: 0n, accessList },
    ]) {
      receipt = await mined(wallet.sendTransaction({ to: address, data, ...t }));
      expect(receipt.status === "success" && receipt.type === t.type, `${t.type} came back as ${receipt.type}`);
    }
    const other = privateKeyToAccount(generatePrivateKey()); // without money: it lends its address to the contract's code
    const authorization = await other.signAuthorization({ contractAddress: address, chainId: await client.getChainId(), nonce: 0 });
    receipt = await mined(wallet.sendTransaction({ to: other.address, data, authorizationList: [authorization] }));
    expect(receipt.status === "success" && receipt.type === "eip7702", "type 4 failed");
    expect(isAddressEqual((await client.getDelegation({ address: other.address })), address), "the account has other code");
    expect((await client.readContract({ address: other.address, abi: sample.abi, functionName: "value" })) === 1n, "the code did not act for the account");
  }],
  ["many in order", async () => {
    const many = privateKeyToAccount(key, { nonceManager });
    const hashes = await Promise.all(Array.from({ length: 40 }, () => wallet.sendTransaction({ account: many, to, value: 1n, gas: 21_000n })));
    const receipts = await Promise.all(hashes.map(mined));
    expect(receipts.every((r) => r.status === "success") && new Set(hashes).size === 40, "one failed");
  }],
  ["receipt at once", async () => {
    receipt = await wallet.sendTransactionSync({ to, value: 1n });
    expect(receipt.status === "success", "the transfer failed");
  }],
  ["refusals", async () => {
    const why = (call, kind) => call.then(() => null, (e) => e.walk((x) => x instanceof kind));
    expect(await why(wallet.sendTransaction({ to, value: 10n ** 30n, gas: 21_000n }), InsufficientFundsError), "insufficient funds are not recognised");
    expect(await why(wallet.sendTransaction({ to, nonce: 0, gas: 21_000n }), NonceTooLowError), "a low nonce is not recognised");
    expect(await why(client.request({ method: "eth_doesNotExist" }), MethodNotFoundRpcError), "an unknown method is not recognised");
    expect(await why(client.getTransactionReceipt({ hash: "0x" + "1".repeat(64) }), TransactionReceiptNotFoundError), "a missing receipt is not recognised");
  }],
  ["batch", async () => {
    const batched = createPublicClient({ transport: httpTransport(http, { batch: { wait: 10 } }) });
    const blocks = await Promise.all(Array.from({ length: 25 }, (_, i) => batched.getBlock({ blockNumber: receipt.blockNumber > BigInt(i) ? receipt.blockNumber - BigInt(i) : 0n })));
    expect(blocks.every((b, i) => i === 0 || b.number === 0n || blocks[i - 1].parentHash === b.hash), "the blocks do not follow each other");
  }],
  ["proof", async () => { // checked against the state root by the Go client; here its form and values
    const proof = await client.getProof({ address, storageKeys: ["0x" + "0".repeat(64)], blockTag: "latest" });
    expect(proof.accountProof.length > 0 && proof.storageProof[0].value === 1n, "the proof shows another value");
  }],
  ["simulate", async () => {
    const store = (v) => ({ to: address, abi: sample.abi, functionName: "store", args: [v, "simulated"] });
    const [first, second] = await client.simulateBlocks({
      blocks: [
        { calls: [{ ...store(10n), account }, { ...store(2000n), account }], stateOverrides: [{ address: account.address, balance: parseGwei("5") }] },
        { calls: [{ to: address, abi: sample.abi, functionName: "value" }, { account, to, value: parseGwei("5") }] },
      ],
      traceTransfers: true,
    });
    expect(first.calls[0].status === "success" && first.calls[0].result === 1n && first.calls[0].logs.length === 1, "the first call ends otherwise");
    expect(first.calls[1].status === "failure" && first.calls[1].error.message.includes("TooLarge"), "the second call is not refused");
    expect(second.number === first.number + 1n && second.calls[0].result === 10n, "the second block does not build on the first");
    expect(second.calls[1].status === "success" && second.calls[1].logs.length === 1, "the transfer is not traced");
    const poor = await client.simulateBlocks({ blocks: [{ calls: [{ account, to, value: 10n ** 30n }] }] }).then(() => null, (e) => e.walk((x) => x.code === -38014));
    expect(poor, "a transfer without the funds is simulated");
    const { results } = await client.simulateCalls({ account: account.address, calls: [store(11n), { to, value: 1n }] });
    expect(results.every((r) => r.status === "success") && results[0].logs.length === 1, "simulateCalls ends otherwise");
  }],
  ["fill", async () => { // the node fills in what a transaction lacks, the account signs it
    const { raw, transaction } = await client.fillTransaction({ account, to, value: 2n });
    expect(raw.startsWith("0x") && transaction.gas >= 21_000n && transaction.nonce === (await client.getTransactionCount({ address: account.address, blockTag: "pending" })), "the transaction is filled in otherwise");
    const signed = await account.signTransaction({ ...transaction, chainId: await client.getChainId() });
    receipt = await mined(client.sendRawTransaction({ serializedTransaction: signed }));
    expect(receipt.status === "success", "the filled transaction failed");
  }],
  ["overrides", async () => {
    const stateOverride = [{ address, stateDiff: [{ slot: "0x" + "0".repeat(64), value: "0x" + "f".padStart(64, "0") }] }];
    expect((await client.readContract({ address, abi: sample.abi, functionName: "value", stateOverride })) === 15n, "the override has no effect");
  }],
  ["trace", async () => {
    const { request } = client;
    const data = encodeFunctionData({ abi: sample.abi, functionName: "store", args: [2000n, ""] });
    const call = await request({ method: "debug_traceCall", params: [{ from: account.address, to: address, data }, "latest", { tracer: "callTracer" }] });
    const { errorName } = decodeErrorResult({ abi: sample.abi, data: call.output });
    expect(call.error === "execution reverted" && errorName === "TooLarge", "the traced call ends otherwise");
    const state = await request({ method: "debug_traceTransaction", params: [receipt.transactionHash, { tracer: "prestateTracer" }] });
    expect(state[account.address.toLowerCase()] && state[to], "the state before the transfer lacks an account");
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
