#!/usr/bin/env bash
# Table 2: SQuAD 1.1. A model's exact matches and F1 on dev.
#
# TEXT=text HELDOUT=text SQUAD=folder tests/paper/table2.sh, or MODEL=folder SQUAD=folder tests/paper/table2.sh
SEEDS=${SEEDS:-1} LR=${LR:-5e-5}
. "$(dirname "$0")/steps.sh"

cells() { cell BERT exact "$MODEL" squad && cell BERT f1 "$MODEL" squad; }
compare
