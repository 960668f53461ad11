"""Parts of the Patients page: leakage by rarity, a bucket's patients, one patient in detail."""
