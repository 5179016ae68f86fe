// Deploys Ledger and prints where: npx hardhat run scripts/deploy.js
const { ethers } = require("hardhat");

async function main() {
  const ledger = await ethers.deployContract("Ledger");
  await ledger.waitForDeployment();
  console.log(`Ledger ${await ledger.getAddress()}`);
}

main().catch((err) => {
  console.error(err);
  process.exitCode = 1;
});
