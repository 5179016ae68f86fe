// The system contracts from ethers: node system.mjs HTTP WS KEY
import { readFileSync } from "node:fs";
import { Contract, JsonRpcProvider, NonceManager, Wallet, WebSocketProvider, parseEther, toUtf8Bytes, toUtf8String } from "ethers";
import { args, expect, once, run } from "./check.mjs";

const { http, ws, key } = args();
const abi = (name) => JSON.parse(readFileSync(new URL(`../../contracts/artifacts/${name}.json`, import.meta.url), "utf8")).abi;
const provider = new JsonRpcProvider(http, undefined, { polling: true, pollingInterval: 200, cacheTimeout: -1 }); // its cache of 250 ms is older than a block here
const socket = new WebSocketProvider(ws);
const wallet = new Wallet(key, provider);
const signer = new NonceManager(wallet); // a change of branch may take a block back that was seen
const producersAt = "0x0000000000000000000000000000000000000b01";
const producers = new Contract(producersAt, abi("Producers"), signer);
const members = new Contract("0x0000000000000000000000000000000000000b02", abi("Members"), signer);
const voted = once();
const stake = parseEther("10");
const part = parseEther("4");
let schedule, favourite;

// reason is why a call would revert; null if it would not.
const reason = (call) => call.then(() => null, (e) => e.reason ?? e.message);
const mined = async (tx) => {
  const receipt = await (await tx).wait(1);
  expect(receipt.status === 1, `transaction ${receipt.hash} failed`);
  return receipt;
};

await run("system", [
  ["schedule", async () => {
    const [accounts, keys] = await producers.schedule();
    schedule = { accounts, keys };
    const node = await provider.send("bor_producers", []);
    expect(schedule.accounts.length === node.length, `${schedule.accounts.length} seats, the node says ${node.length}`);
    node.forEach((p, i) => {
      expect(BigInt(p.account) === BigInt(schedule.accounts[i]), `seat ${i} is ${schedule.accounts[i]}, the node says ${p.account}`);
      expect(p.key === schedule.keys[i], `the key of seat ${i} differs from the node's`);
    });
    favourite = schedule.accounts[0];
    expect(await producers.isActive(favourite), `${favourite} is not active`);
    expect(!(await producers.isActive(wallet.address)), `${wallet.address} is active`);
    const n = BigInt(node.length);
    expect((await producers.quorum()) === n - (n - 1n) / 3n, "the quorum is wrong");
    return `${node.length} seats`;
  }],
  ["candidates", async () => {
    const all = await producers.candidates();
    for (const a of schedule.accounts) expect(all.includes(a), `${a} has a seat and is no candidate`);
    const [info, k] = await producers.candidate(favourite);
    expect(k === schedule.keys[0] && info.seated > 0n && !info.guilty, "the candidate of seat 0 is wrong");
    expect((await producers.keyOwner(k)) === favourite, "the key belongs to another account");
    return `${all.length}`;
  }],
  ["settings", async () => {
    const s = await producers.settings();
    const block = await provider.getBlock(0);
    expect(s.genesisTime === BigInt(block.timestamp), "the time of genesis differs from block 0");
    expect((await producers.genesisHash()) === block.hash, "the hash of genesis differs from block 0");
    return `slots of ${s.slotMillis} ms, epochs of ${s.epochBlocks} blocks`;
  }],
  ["members", async () => {
    const [peerIds, accounts, roles] = await members.list();
    const names = peerIds.map(toUtf8String);
    for (const p of await provider.send("bor_peers", [])) expect(names.includes(p.id), `peer ${p.id} is not a member`);
    const i = accounts.indexOf(favourite);
    expect(i >= 0 && (roles[i] & 1n) === 1n, `${favourite} produces without a producer's node`);
    const node = await members.node(toUtf8Bytes(names[i]));
    expect(node.account === favourite && node.roles === roles[i], "node() and list() differ");
    expect(await members.maySend(wallet.address), `${wallet.address} may not send`);
    const limits = await members.restrictions();
    expect(!limits.senders_ && !limits.deployers_, "the lists of accounts are on");
    return `${names.length}`;
  }],
  ["subscribe to votes", async () => {
    const listening = producers.connect(socket);
    await listening.on(listening.filters.Voted(wallet.address), (event) => voted.done(event.args));
    await socket.getBlockNumber();
  }],
  ["deposit", async () => {
    const before = (await producers.stakeOf(wallet.address)).stake;
    const total = (await producers.totals()).staked;
    const held = await provider.getBalance(producersAt);
    await mined(producers.deposit({ value: stake }));
    expect((await producers.stakeOf(wallet.address)).stake - before === stake, "the stake did not grow by the deposit");
    expect((await producers.totals()).staked - total === stake, "the sum of stakes did not grow by the deposit");
    expect((await provider.getBalance(producersAt)) - held === stake, "the contract's balance did not grow by the deposit");
  }],
  ["vote", async () => {
    const before = (await producers.candidate(favourite)).info.votes;
    const receipt = await mined(producers.vote(favourite, part));
    expect((await producers.candidate(favourite)).info.votes - before === part, "the votes did not grow");
    const ballots = await producers.ballots(wallet.address);
    expect(ballots.some((b) => b.producer === favourite && b.amount >= part), "the ballot is not found");
    const found = await producers.queryFilter(producers.filters.Voted(wallet.address), receipt.blockNumber, receipt.blockNumber);
    expect(found.length === 1 && found[0].args.producer === favourite && found[0].args.amount === part, "the event is not found");
    const seen = await voted.promise;
    expect(seen.account === wallet.address && seen.producer === favourite && seen.amount === part, "another event came");
    return `${favourite}`;
  }],
  ["refusals", async () => {
    const much = await reason(producers.vote.staticCall(favourite, parseEther("100000")));
    expect(much?.includes("free stake is smaller"), `voting with more than the stake: ${much}`);
    const nobody = await reason(producers.vote.staticCall(wallet.address, 1n));
    expect(nobody?.includes("no such candidate"), `voting for nobody: ${nobody}`);
    const end = await reason(producers.endEpoch.staticCall(0n, "0x"));
    expect(end !== null, "anybody may end an epoch");
    const proposal = await reason(members.propose.staticCall(3, "0x" + "1".padStart(64, "0")));
    expect(proposal?.includes("only a producer of the schedule or the admin"), `proposing: ${proposal}`);
    return end;
  }],
  ["unvote and ask back", async () => {
    await mined(producers.unvote(favourite, part));
    await mined(producers.requestWithdrawal(part));
    const mine = await producers.stakeOf(wallet.address);
    expect(mine.leaving >= part && mine.readyAt > 0n, "nothing is on its way back");
    const early = await reason(producers.withdraw.staticCall());
    expect(early !== null, "the stake comes back without the delay");
    return early;
  }],
]);
