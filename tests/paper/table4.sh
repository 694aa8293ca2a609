#!/usr/bin/env bash
# Table 4: SWAG. A model's accuracy on dev.
#
# TEXT=text HELDOUT=text SWAG=folder tests/paper/table4.sh, or MODEL=folder SWAG=folder tests/paper/table4.sh
SEEDS=${SEEDS:-1} LR=${LR:-2e-5}
. "$(dirname "$0")/steps.sh"

cells() { cell BERT swag "$MODEL" swag; }
compare
