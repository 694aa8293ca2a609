# To be sourced: what is checked before anything is made, and files that commands make once, whichever script comes first.

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 2
}

# check_numbers NAME...: fails where a parameter is no whole number from 1.
check_numbers() {
    local name
    for name in "$@"; do
        [[ ${!name} =~ ^[1-9][0-9]*$ ]] || fail "$name=${!name}: expected a whole number from 1"
    done
}

# check_paths NAME PATH...: fails where one of the paths of a parameter is not there.
check_paths() {
    local name=$1 path
    for path in "${@:2}"; do
        [[ -e $path ]] || fail "$name: $path is not there"
    done
}

# described COMMAND...: prints its words, a line each; of what is in WORK its place there, of another file its path, size
# and date.
described() {
    local word
    for word in "$@"; do
        if [[ $word == "$WORK"/* ]]; then
            echo "${word#"$WORK/"}"
        elif [[ -e $word ]]; then
            echo "$(realpath "$word")$([[ ! -f $word ]] || stat -c ', %s bytes of %y' "$word")"
        else
            echo "$word"
        fi
    done
}

# made FILE COMMAND...: makes a file of what the command writes, whole or not at all, unless it is there already, by the
# same command and of the same files: FILE.by says by and of which. Of scripts that run side by side one makes it and the
# others wait. What the command says goes to FILE.log, and if it fails to stderr too. It must be one pipeline or && list:
# -e is off in it.
made() {
    mkdir -p "$(dirname "$1")"
    (
        file=$1 start=$SECONDS
        shift
        by=$(described "$@")
        flock 9
        if [[ -e $file ]]; then
            [[ $(< "$file.by") != "$by" ]] || exit 0
            differ=$(diff "$file.by" - <<< "$by") || true
            was=$(sed -n 's/^< //p' <<< "$differ" | paste -sd ' ') now=$(sed -n 's/^> //p' <<< "$differ" | paste -sd ' ')
            fail "$file is of other parameters ('$was', not '$now'); name another WORK"
        fi
        "$@" > "$file.part" 2> "$file.log" 9>&- || {
            status=$?
            { echo "$(basename "$0"): $file: status $status" && tail -n 20 "$file.log"; } >&2
            exit "$status"
        }
        echo "$by" > "$file.by"
        mv "$file.part" "$file"
        echo "made ${file#"$WORK/"} in $((SECONDS - start)) s" >&2
    ) 9>> "$1.log"
}
