// The tests run against a node, not against Hardhat's own chain: npx hardhat test
const assert = require("node:assert/strict");
const { ethers, network } = require("hardhat");

describe("Ledger", () => {
  let ledger, owner;
  const other = "0x00000000000000000000000000000000000c11e4";
  const mined = async (tx) => (await tx).wait();

  before(async () => {
    [owner] = await ethers.getSigners();
    ledger = await ethers.deployContract("Ledger");
    await ledger.waitForDeployment();
  });

  it("runs on the node's chain", async () => {
    const { chainId } = await ethers.provider.getNetwork();
    assert.equal(network.name, "bornode");
    assert.equal(BigInt(await network.provider.send("eth_chainId")), chainId);
    assert.match(await network.provider.send("web3_clientVersion"), /^bornode/);
  });

  it("has the code that the compiler made", async () => {
    const code = await ethers.provider.getCode(await ledger.getAddress());
    assert.ok(code.length > 2);
    assert.equal(await ledger.owner(), owner.address);
  });

  it("takes value and tells of it", async () => {
    const receipt = await mined(ledger.put({ value: 100n }));
    const moved = receipt.logs.map((l) => ledger.interface.parseLog(l)).filter((l) => l?.name === "Moved");
    assert.deepEqual([...moved[0].args], [ethers.ZeroAddress, owner.address, 100n]);
    assert.equal(await ledger.balanceOf(owner.address), 100n);
    assert.equal(await ethers.provider.getBalance(await ledger.getAddress()), 100n);
  });

  it("moves", async () => {
    await mined(ledger.move(other, 40n));
    assert.equal(await ledger.balanceOf(other), 40n);
    const found = await ledger.queryFilter(ledger.filters.Moved(owner.address), 0, "latest");
    assert.equal(found.at(-1).args.amount, 40n);
  });

  it("says which custom error stopped it", async () => {
    const stopped = (name) => (err) => ledger.interface.parseError(err.data)?.name === name;
    await assert.rejects(ledger.move(other, 1000n), stopped("NotEnough"));
    await assert.rejects(ledger.connect(ethers.provider).close.staticCall({ from: other }), stopped("NotOwner"));
  });

  it("says why a transaction was reverted", async () => {
    await mined(ledger.close());
    await assert.rejects(ledger.put({ value: 1n }), /the ledger is closed/);
    const sent = await ledger.put({ value: 1n, gasLimit: 200_000 }); // not estimated: it goes into a block and fails there
    await assert.rejects(sent.wait(), (err) => err.receipt?.status === 0);
  });

  it("keeps the order of many transactions", async () => {
    const first = await ethers.provider.getTransactionCount(owner.address, "pending");
    const sent = [];
    for (let i = 0; i < 20; i++) sent.push(await owner.sendTransaction({ to: other, value: 1n, nonce: first + i, gasLimit: 21_000 }));
    const receipts = await Promise.all(sent.map((tx) => tx.wait()));
    assert.ok(receipts.every((r) => r.status === 1));
    assert.equal(await ethers.provider.getTransactionCount(owner.address), first + 20);
  });
});
