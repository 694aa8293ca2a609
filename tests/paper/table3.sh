#!/usr/bin/env bash
# Table 3: SQuAD 2.0, where some questions have no answer. A model's exact matches and F1 on dev, at the best threshold.
#
# TEXT=text HELDOUT=text SQUAD=folder tests/paper/table3.sh, or MODEL=folder SQUAD=folder tests/paper/table3.sh
SEEDS=${SEEDS:-1} LR=${LR:-5e-5}
. "$(dirname "$0")/steps.sh"

cells() { cell BERT exact "$MODEL" squad2 && cell BERT f1 "$MODEL" squad2; }
compare
