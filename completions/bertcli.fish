# fish completion for bertcli; rendered by python -m bertcli.manual
complete -c bertcli -n __fish_use_subcommand -l version -d 'Show the version and exit'
complete -c bertcli -n __fish_use_subcommand -s h -l help -d 'Show this message and exit'
complete -c bertcli -f -n __fish_use_subcommand -a vocab -d 'Learn a WordPiece vocabulary from text.'
complete -c bertcli -f -n __fish_use_subcommand -a read -d 'Turn other people'\''s files into documents or task records.'
complete -c bertcli -f -n __fish_use_subcommand -a tokenize -d 'Add WordPiece tokens, ids and offsets to text or records.'
complete -c bertcli -f -n __fish_use_subcommand -a pairs -d 'Cut documents into pairs of segments for next-sentence prediction.'
complete -c bertcli -f -n __fish_use_subcommand -a mask -d 'Hide tokens of pairs for the masked language model.'
complete -c bertcli -f -n __fish_use_subcommand -a pretrain -d 'Pre-train a model on pairs.'
complete -c bertcli -f -n __fish_use_subcommand -a finetune -d 'Fine-tune a model on the records of a task.'
complete -c bertcli -f -n __fish_use_subcommand -a predict -d 'Add a model'\''s predictions to records.'
complete -c bertcli -f -n __fish_use_subcommand -a embed -d 'Add a model'\''s vectors to records.'
complete -c bertcli -f -n __fish_use_subcommand -a score -d 'Score predictions beside gold labels.'
complete -c bertcli -f -n __fish_use_subcommand -a write -d 'Write predictions as the official file of a task or as a table, vectors as an array.'
complete -c bertcli -f -n __fish_use_subcommand -a convert -d 'Turn a BERT of any make into a model folder, or into what others read.'
complete -c bertcli -f -n __fish_use_subcommand -a show -d 'Say what is in a model folder, a vocabulary or a stream.'
complete -c bertcli -f -n __fish_use_subcommand -a plot -d 'Draw the curves of training logs, dev scores and tables.'
complete -c bertcli -f -n __fish_use_subcommand -a demo -d 'Run the whole pipe on a small corpus that ships inside.'
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l text -d 'Take every input as plain text, even if it begins with '\''{'\'''
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l size -d 'Pieces at most, all counted' -x
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l alphabet -d 'Pieces of one character to add, at most' -x
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l min-count -d 'How often a pair of pieces must come to be joined, and a piece of several characters to stay' -x
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l special -d 'Ids of [PAD] [UNK] [CLS] [SEP] [MASK]: 0-4, or 0 and 100-103 with [unusedN] between' -x -a 'first google'
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l extend -d 'Add to a vocabulary, whose ids stay' -r
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l workers -d 'Processes that share the work; the result is the same' -x
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l cased -l uncased -d 'Keep letters as they are, or lower-case them'
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l strip-accents -l no-strip-accents -d 'Remove combining marks'
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -l split-cjk -l no-split-cjk -d 'Make every Chinese character a word'
complete -c bertcli -n '__fish_seen_subcommand_from vocab' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from read' -l document -d 'text: What ends a document: a blank line (the default), the file'\''s end, or every line' -x -a 'blank-line file line'
complete -c bertcli -n '__fish_seen_subcommand_from read' -l split -d 'text: How it is cut into sentences: at line ends (the default), by rules or by sentencex, both for English' -x -a 'lines rules sentencex'
complete -c bertcli -n '__fish_seen_subcommand_from read' -l predictions -d 'glue-…, squad: An official file of answers, put beside the records as `prediction`' -r
complete -c bertcli -n '__fish_seen_subcommand_from read' -l evidence -d 'triviaqa: Where the pages are' -r
complete -c bertcli -n '__fish_seen_subcommand_from read' -l words -d 'triviaqa: Words of a page to keep, its first' -x
complete -c bertcli -n '__fish_seen_subcommand_from read' -l seed -d 'swag: Where it puts the right endings of the full layout' -x
complete -c bertcli -n '__fish_seen_subcommand_from read' -l documents -d 'conll: A record a document, not a sentence'
complete -c bertcli -n '__fish_seen_subcommand_from read' -l scheme -d 'conll: Spell the labels anew in this scheme' -x -a 'IOB1 IOB2 BIOES'
complete -c bertcli -n '__fish_seen_subcommand_from read' -l text -d 'csv, tsv: The column of the text' -r
complete -c bertcli -n '__fish_seen_subcommand_from read' -l text-pair -d 'csv, tsv: That of the second' -r
complete -c bertcli -n '__fish_seen_subcommand_from read' -l label -d 'csv, tsv: That of the label' -r
complete -c bertcli -n '__fish_seen_subcommand_from read' -l id -d 'csv, tsv: That of the id' -r
complete -c bertcli -n '__fish_seen_subcommand_from read' -l number -d 'csv, tsv: The label is a number'
complete -c bertcli -n '__fish_seen_subcommand_from read' -l several -d 'csv, tsv: A cell holds several labels, joined by this' -r
complete -c bertcli -n '__fish_seen_subcommand_from read' -l no-header -d 'csv, tsv: Columns have numbers, from 1'
complete -c bertcli -n '__fish_seen_subcommand_from read' -l delimiter -d 'csv: What parts the columns' -r
complete -c bertcli -n '__fish_seen_subcommand_from read' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from read' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from read' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from read' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from read; and not __fish_seen_subcommand_from text glue-cola glue-sst-2 glue-mrpc glue-sts-b glue-qqp glue-mnli glue-qnli glue-rte glue-wnli glue-ax squad triviaqa swag blimp conll csv tsv' -x -a 'text glue-cola glue-sst-2 glue-mrpc glue-sts-b glue-qqp glue-mnli glue-qnli glue-rte glue-wnli glue-ax squad triviaqa swag blimp conll csv tsv'
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -l text -d 'Take every input as plain text, even if it begins with '\''{'\'''
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -l field -d 'The field to tokenize, a string or a list of words' -r
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -l workers -d 'Processes that share the work; the result is the same' -x
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -s v -l vocab -d 'The vocabulary, a piece a line, or a folder with one' -r
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -l cased -l uncased -d 'Keep letters as they are, or lower-case them'
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -l strip-accents -l no-strip-accents -d 'Remove combining marks'
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -l split-cjk -l no-split-cjk -d 'Make every Chinese character a word'
complete -c bertcli -n '__fish_seen_subcommand_from tokenize' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l max-length -d 'Tokens per sequence, [CLS] and [SEP] included' -x
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l short -d 'Share of the documents that are cut into shorter pairs, of a random length' -x
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l copies -d 'How many times each document is cut, at random anew; under --single from another first cut on' -x
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l window -d 'How many of the last documents random segments come from, but 32 million tokens at most' -x
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l pool -d 'Documents that random segments come from, not the window; all are held' -r
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l single -d 'Pack sentences into segments, without pairing'
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l split -d 'How a text is cut into sentences: at line ends, by rules or by the sentencex package, both for English' -x -a 'lines rules sentencex'
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l workers -d 'Processes that share the work; the result is the same' -x
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l seed -d 'Where all randomness comes from: one input and one seed give the same records' -x
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -s v -l vocab -d 'The vocabulary, a piece a line, or a folder with one' -r
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l cased -l uncased -d 'Keep letters as they are, or lower-case them'
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l strip-accents -l no-strip-accents -d 'Remove combining marks'
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -l split-cjk -l no-split-cjk -d 'Make every Chinese character a word'
complete -c bertcli -n '__fish_seen_subcommand_from pairs' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l rate -d 'Share of the tokens to predict' -x
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l fates -d 'Percentages that become [MASK], stay the same, or become a random token (Table 8'\''s columns)' -r
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l whole-word -d 'Mask all pieces of a word together'
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l bernoulli -d 'Choose each token, or word, by itself with probability --rate, not an exact number of them'
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l ngram -d 'Mask spans of up to so many tokens, or words: length n with probability proportional to 1/n' -x
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l max-masks -d 'Tokens to predict a sequence, at most' -x
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l copies -d 'How many times each pair is written, with other masks; from the second on #1, #2, … follow the id' -x
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l seed -d 'Where all randomness comes from: one input and one seed give the same records' -x
complete -c bertcli -n '__fish_seen_subcommand_from mask' -l workers -d 'Processes that share the work; the result is the same' -x
complete -c bertcli -n '__fish_seen_subcommand_from mask' -s v -l vocab -d 'The vocabulary, a piece a line, or a folder with one' -r
complete -c bertcli -n '__fish_seen_subcommand_from mask' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -s v -l vocab -d 'The vocabulary, a piece a line, or a folder with one' -r
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l cased -l uncased -d 'Keep letters as they are, or lower-case them'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l strip-accents -l no-strip-accents -d 'Remove combining marks'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l split-cjk -l no-split-cjk -d 'Make every Chinese character a word'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l preset -d 'The model'\''s size: tiny 2x128, mini 4x256, small 4x512, medium 8x512, base 12x768, large 24x1024, or LAYERSxWIDTH with heads of 64, or LAYERSxWIDTHxHEADS' -x -a 'tiny mini small medium base large 2x128 2x256 2x512 2x768 4x128 4x256 4x512 4x768 6x128 6x256 6x512 6x768 8x128 8x256 8x512 8x768 10x128 10x256 10x512 10x768 12x128 12x256 12x512 12x768 3x768 6x768x3 12x1024 24x1024'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l num-layers -d 'Layers, instead of the preset'\''s' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l hidden-size -d 'Width, instead of the preset'\''s; the feed-forward is four times it' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l num-heads -d 'Attention heads, instead of the preset'\''s' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l start -d 'A model folder whose size, vocabulary and weights to begin from' -r
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l objective -d 'What is learned: hidden tokens and next sentences; hidden tokens; each token from those before it' -x -a 'mlm+nsp mlm ltr'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l max-length -d 'Tokens per sequence, specials included; a longer pair is an error' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l rate -d 'Share of the tokens to predict' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l fates -d 'Percentages that become [MASK], stay the same, or become a random token (Table 8'\''s columns)' -r
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l whole-word -d 'Mask all pieces of a word together'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l bernoulli -d 'Choose each token, or word, by itself with probability --rate, not an exact number of them'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l ngram -d 'Mask spans of up to so many tokens, or words: length n with probability proportional to 1/n' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l max-masks -d 'Tokens to predict a sequence, at most' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l dev -d 'Pairs to score the model on, with each checkpoint and at the end' -r
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l eval-every -d 'Steps between the scores of --dev, instead of with each checkpoint' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l steps -d 'Optimizer steps over which the rate falls' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l stop-at -d 'Stop after this step; --resume goes on' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -s o -l output -d 'The model folder to write' -r
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l force -d 'Overwrite a model that is there'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l resume -d 'Go on from the newest complete checkpoint there, as all ranks do that torchrun --max-restarts starts anew'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l save-every -d 'Steps between checkpoints; 0: none' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l keep -d 'The newest checkpoints that stay, until the run is finished' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l save-at -d 'Steps after which to keep a whole model in steps/N, as in 1000,5000' -r
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l spool -d 'Where ids are kept until the run is complete' -r
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l lr -d 'The highest learning rate' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l warmup -d 'Steps to reach it: below 1 a share, from 1 on a count' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l schedule -d 'How the rate falls: from its peak to 0; from the first step on, as in Google'\''s code; not at all' -x -a 'linear google constant'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l optimizer -d 'lamb: each matrix changes in proportion to its own length, for batches of thousands of examples' -x -a 'adamw lamb'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l bias-correction -l no-bias-correction -d 'Of the optimizer'\''s moments; Google'\''s code has none'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l batch-size -d 'Examples an optimizer step, over all ranks' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l dropout -d 'On activations and on attention' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l seed -d 'Where all randomness comes from: one input and one seed give the same records' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l device -d 'auto (a GPU, else the CPU), cpu, cuda, cuda:1 …' -r
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l precision -d 'auto: bf16 on a GPU that has it, else fp32' -x -a 'auto fp32 bf16'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l max-tokens -d 'Tokens per forward pass, or of all that share the cores of a CPU: memory and speed; the result stays the same up to rounding, and in training up to what dropout draws' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l kernels -d 'auto: on a GPU in bf16, Triton'\''s kernels compute what lies between a layer'\''s products' -x -a 'auto off'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l compile -d 'torch.compile for all that no kernel computes; auto: in pre-training on a GPU in bf16' -x -a 'auto on off'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l gradient-checkpointing -d 'Keep of each layer its input alone, and compute the rest again in the backward pass: the same result in less memory and more time'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l cuda-graphs -d 'auto: on a GPU in bf16, small passes are recorded, and their kernels issued all at once, as far as there is memory for it' -x -a 'auto off'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l deterministic -d 'On a GPU too, a run repeats, and goes on when resumed, bit for bit, on the same kind of machine with the same versions: sums are made in a fixed order, which costs some speed'
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -l workers -d 'Processes of a machine that get batches ready while others train, 1: those themselves; the result is the same' -x
complete -c bertcli -n '__fish_seen_subcommand_from pretrain' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -s m -l model -d 'The model folder' -r
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l dev -d 'Records to score the model on, after each epoch' -r
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l restarts -d 'Runs of each cell of the grid, from seeds that follow each other: other shuffles, other heads' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l early-stop -d 'End a run after so many epochs without a better dev score, and keep its best epoch; 0: never' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l metric -d 'The dev score that is to be best' -r
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l class-weights -d 'classification: How much records of each label count, balanced or such as no=1,yes=3.5' -r
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l positive -d 'classification: The label whose f1, precision and recall --dev has, where there are two' -r
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l cut -d 'classification, regression, choice: Cut texts that are too long, instead of reading windows'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l stride -d 'span: Tokens from one window to the next, half a window at most' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l max-question -d 'span: A question'\''s tokens, at most' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l max-answer -d 'span: An answer'\''s tokens, at most' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l features -d 'tagging: TRAIN and --dev are embed'\''s output, a row a word; a BiLSTM learns on it, and of -m, where it is given, only that the vectors are from it'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l bilstm -d 'Put a BiLSTM of two layers between the model and its head'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l bilstm-units -d 'Its units, in each direction, with --bilstm or --features' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l max-length -d 'Tokens per sequence, specials included; what is longer is read in overlapping windows' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l epochs -d 'Passes over the records' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -s o -l output -d 'The model folder to write' -r
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l force -d 'Overwrite a model that is there'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l resume -d 'Go on from the newest complete checkpoint there, as all ranks do that torchrun --max-restarts starts anew'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l save-every -d 'Steps between checkpoints; 0: none' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l keep -d 'The newest checkpoints that stay, until the run is finished' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l save-at -d 'Steps after which to keep a whole model in steps/N, as in 1000,5000' -r
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l spool -d 'Where ids are kept until the run is complete' -r
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l lr -d 'The highest learning rate' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l warmup -d 'Steps to reach it: below 1 a share, from 1 on a count' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l schedule -d 'How the rate falls: from its peak to 0; from the first step on, as in Google'\''s code; not at all' -x -a 'linear google constant'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l optimizer -d 'lamb: each matrix changes in proportion to its own length, for batches of thousands of examples' -x -a 'adamw lamb'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l bias-correction -l no-bias-correction -d 'Of the optimizer'\''s moments; Google'\''s code has none'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l batch-size -d 'Examples an optimizer step, over all ranks' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l dropout -d 'On activations and on attention' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l seed -d 'Where all randomness comes from: one input and one seed give the same records' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l device -d 'auto (a GPU, else the CPU), cpu, cuda, cuda:1 …' -r
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l precision -d 'auto: bf16 on a GPU that has it, else fp32' -x -a 'auto fp32 bf16'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l max-tokens -d 'Tokens per forward pass, or of all that share the cores of a CPU: memory and speed; the result stays the same up to rounding, and in training up to what dropout draws' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l kernels -d 'auto: on a GPU in bf16, Triton'\''s kernels compute what lies between a layer'\''s products' -x -a 'auto off'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l compile -d 'torch.compile for all that no kernel computes; auto: in pre-training on a GPU in bf16' -x -a 'auto on off'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l gradient-checkpointing -d 'Keep of each layer its input alone, and compute the rest again in the backward pass: the same result in less memory and more time'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l cuda-graphs -d 'auto: on a GPU in bf16, small passes are recorded, and their kernels issued all at once, as far as there is memory for it' -x -a 'auto off'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l deterministic -d 'On a GPU too, a run repeats, and goes on when resumed, bit for bit, on the same kind of machine with the same versions: sums are made in a fixed order, which costs some speed'
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -l workers -d 'Processes of a machine that get batches ready while others train, 1: those themselves; the result is the same' -x
complete -c bertcli -n '__fish_seen_subcommand_from finetune' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from finetune; and not __fish_seen_subcommand_from classification regression tagging span choice' -x -a 'classification regression tagging span choice'
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l text -d 'Take every input as plain text, even if it begins with '\''{'\'''
complete -c bertcli -n '__fish_seen_subcommand_from predict' -s m -l model -d 'The model folder; of several, the mean of their answers counts' -r
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l max-length -d 'Tokens per sequence, specials included; what is longer is read in windows' -x
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l top-k -d 'pretraining: Pieces to name for each hidden token' -x
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l pseudo-likelihood -d 'pretraining: Tell how likely a text is, each of its tokens hidden in turn'
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l nbest -d 'span: Answers to name, each with its probability' -x
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l null-threshold -d 'span: There is no answer where its score is so far below that of none; inf: there always is' -x
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l stride -d 'span: Tokens from one window to the next, half a window at most' -x
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l max-question -d 'span: A question'\''s tokens, at most' -x
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l max-answer -d 'span: An answer'\''s tokens, at most' -x
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l workers -d 'Processes that share the work beside the model'\''s; the result is the same' -x
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l device -d 'auto (a GPU, else the CPU), cpu, cuda, cuda:1 …' -r
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l precision -d 'auto: bf16 on a GPU that has it, else fp32' -x -a 'auto fp32 bf16'
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l max-tokens -d 'Tokens per forward pass, or of all that share the cores of a CPU: memory and speed; the result stays the same up to rounding, and in training up to what dropout draws' -x
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l kernels -d 'auto: on a GPU in bf16, Triton'\''s kernels compute what lies between a layer'\''s products' -x -a 'auto off'
complete -c bertcli -n '__fish_seen_subcommand_from predict' -l compile -d 'torch.compile for all that no kernel computes; auto: in pre-training on a GPU in bf16' -x -a 'auto on off'
complete -c bertcli -n '__fish_seen_subcommand_from predict' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l text -d 'Take every input as plain text, even if it begins with '\''{'\'''
complete -c bertcli -n '__fish_seen_subcommand_from embed' -s m -l model -d 'The model folder' -r
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l layers -d 'embeddings, last, second-to-last, concat4, weighted4, weighted-all, or a list such as -1,-2' -r
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l pool -d 'What a row is of' -x -a 'words tokens cls mean'
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l dtype -d 'The numbers'\'' type' -x -a 'float16 float32'
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l vectors -d 'Compact, or readable by jq' -x -a 'base64 list'
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l max-length -d 'Tokens per window, specials included' -x
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l field -d 'The field to read, a string or a list of words' -r
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l workers -d 'Processes that share the work beside the model'\''s; the result is the same' -x
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l device -d 'auto (a GPU, else the CPU), cpu, cuda, cuda:1 …' -r
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l precision -d 'auto: bf16 on a GPU that has it, else fp32' -x -a 'auto fp32 bf16'
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l max-tokens -d 'Tokens per forward pass, or of all that share the cores of a CPU: memory and speed; the result stays the same up to rounding, and in training up to what dropout draws' -x
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l kernels -d 'auto: on a GPU in bf16, Triton'\''s kernels compute what lies between a layer'\''s products' -x -a 'auto off'
complete -c bertcli -n '__fish_seen_subcommand_from embed' -l compile -d 'torch.compile for all that no kernel computes; auto: in pre-training on a GPU in bf16' -x -a 'auto on off'
complete -c bertcli -n '__fish_seen_subcommand_from embed' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from score' -l positive -d 'classification: The label whose f1, precision and recall are given, where there are two' -r
complete -c bertcli -n '__fish_seen_subcommand_from score' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from score' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from score' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from score' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from score; and not __fish_seen_subcommand_from classification regression tagging span choice pretraining pairs' -x -a 'classification regression tagging span choice pretraining pairs'
complete -c bertcli -n '__fish_seen_subcommand_from write' -l several -d 'csv, tsv: A cell holds several labels, joined by this' -r
complete -c bertcli -n '__fish_seen_subcommand_from write' -l delimiter -d 'csv: What parts the columns' -r
complete -c bertcli -n '__fish_seen_subcommand_from write' -l plain -d 'Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)'
complete -c bertcli -n '__fish_seen_subcommand_from write' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from write' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from write' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from write; and not __fish_seen_subcommand_from glue-cola glue-sst-2 glue-mrpc glue-sts-b glue-qqp glue-mnli glue-qnli glue-rte glue-wnli glue-ax squad squad-nbest squad-odds conll csv tsv npy safetensors' -x -a 'glue-cola glue-sst-2 glue-mrpc glue-sts-b glue-qqp glue-mnli glue-qnli glue-rte glue-wnli glue-ax squad squad-nbest squad-odds conll csv tsv npy safetensors'
complete -c bertcli -n '__fish_seen_subcommand_from convert' -s o -l output -d 'The model folder to write' -r
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l force -d 'Overwrite a model that is there'
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l to -d 'What to write: a model folder, which transformers reads too, or its like for others' -x -a 'bertcli tensorflow sentence-transformers onnx'
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l precision -d 'Of --to onnx: the numbers that products are made of' -x -a 'fp32 int8'
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l extend-vocab -d 'The vocabulary grown, or a folder with it: SRC'\''s pieces keep their ids' -r
complete -c bertcli -n '__fish_seen_subcommand_from convert' -s v -l vocab -d 'The vocabulary, a piece a line, or a folder with one' -r
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l config -d 'The config, as JSON' -r
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l architecture -d 'The transformers class that SRC is of, as BertForTokenClassification' -x -a 'BertForPreTraining BertForMaskedLM BertLMHeadModel BertForSequenceClassification BertForTokenClassification BertForQuestionAnswering BertForMultipleChoice BertModel'
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l labels -d 'Names for the outputs of SRC'\''s head, in their order' -r
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l without -d 'Tensors to leave out: names, or patterns such as '\''adapter.*'\''' -r
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l quiet -s q -d 'No progress and no summary on stderr'
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l cased -l uncased -d 'Keep letters as they are, or lower-case them'
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l strip-accents -l no-strip-accents -d 'Remove combining marks'
complete -c bertcli -n '__fish_seen_subcommand_from convert' -l split-cjk -l no-split-cjk -d 'Make every Chinese character a word'
complete -c bertcli -n '__fish_seen_subcommand_from convert' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from show' -l json -d 'One JSON object, for programs'
complete -c bertcli -n '__fish_seen_subcommand_from show' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from plot' -l x -d 'What goes from left to right' -r
complete -c bertcli -n '__fish_seen_subcommand_from plot' -l y -d 'What goes up: a panel each, one below the other' -r
complete -c bertcli -n '__fish_seen_subcommand_from plot' -s o -l output -d 'The picture, whose suffix is its format: .svg, .png or .pdf' -r
complete -c bertcli -n '__fish_seen_subcommand_from plot' -l smooth -d 'Average the rows of so wide a stretch of x, in its units; 0 averages those of one x alone' -x
complete -c bertcli -n '__fish_seen_subcommand_from plot' -l log-x -d 'A logarithmic scale from left to right'
complete -c bertcli -n '__fish_seen_subcommand_from plot' -l log-y -d 'A logarithmic scale upwards'
complete -c bertcli -n '__fish_seen_subcommand_from plot' -l on-error -d 'What a bad line does: stop the command, or be skipped and counted' -x -a 'stop skip'
complete -c bertcli -n '__fish_seen_subcommand_from plot' -s h -l help -d 'Show this message and exit'
complete -c bertcli -n '__fish_seen_subcommand_from demo' -s o -l output -d 'The folder to work in' -r
complete -c bertcli -n '__fish_seen_subcommand_from demo' -l force -d 'Overwrite what an earlier demo left there'
complete -c bertcli -n '__fish_seen_subcommand_from demo' -s h -l help -d 'Show this message and exit'
