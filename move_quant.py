"""Run in a worktree: quant/ in folders format, numbers, text (and blocks)."""
import os,re,subprocess
T={'numbers':'float16 group_search lanes multiversion number_formats quantize tile16 turn_words value_groups bit_groups'.split(),
 'text':'added_tokens byte_set call_format call_format_check chat_order chat_template_check chat_template_format chat_text json_print nfc nfc_tables pre_tokenizer_check pre_tokenizer_format prefixed_text template_tokens tokenizer_check tokenizer_format tokenizer_view tool_members tool_tags unicode utf8'.split(),
 'model':'memory_plan tensor_check upper_bits model_config model_layout role_names'.split(),
 'format':'align all_zero architectures built_in carver checksum format metadata_check reason'.split()}
where={n:f for f,ns in T.items() for n in ns}
files=subprocess.check_output(['git','ls-files'],text=True).split('\n')[:-1]
top=[f for f in files if re.fullmatch(r'quant/[^/]+\.(h|cpp)',f)]
unknown=[f for f in top if os.path.splitext(os.path.basename(f))[0] not in where]
assert not unknown, unknown
for f in top:
    d='quant/'+where[os.path.splitext(os.path.basename(f))[0]]
    os.makedirs(d,exist_ok=True)
    subprocess.check_call(['git','mv',f,d+'/'+os.path.basename(f)])
names='|'.join(sorted(where,key=len,reverse=True))
one=re.compile(r'(?<![\w])((?:\.\./)*quant/)(%s)(?![\w/])'%names)
brace=re.compile(r'quant/\{([a-z0-9_,/]+)\}')
n=0
for f in subprocess.check_output(['git','ls-files'],text=True).split('\n')[:-1]:
    if os.path.islink(f) or not os.path.isfile(f): continue
    b=open(f,'rb').read()
    if b'quant/' not in b or b'\0' in b: continue
    s=b.decode('utf-8')
    if f.startswith('tests/unit/quant/') or True:
        t=one.sub(lambda m:m[1]+where[m[2]]+'/'+m[2],s)
    if t!=s:
        open(f,'w').write(t); n+=1
print(len(top),'moved',n,'changed')
def sub(p,*prs):
    s=open(p).read()
    for a,b in prs:
        assert a in s,(p,a); s=s.replace(a,b)
    open(p,'w').write(s)
sub('quant/CMakeLists.txt',('CONFIGURE_DEPENDS *.cpp','CONFIGURE_DEPENDS */*.cpp'),('properties(chat_text.cpp','properties(text/chat_text.cpp'),
    ('properties(upper_bits.cpp','properties(model/upper_bits.cpp'),('STATIC quantize.cpp','STATIC numbers/quantize.cpp'),('properties(quantize.cpp','properties(numbers/quantize.cpp'))
sub('tests/house/layering.py',('# The same of runtime; quant and the public headers are below all of them.\n','''# The same of quant.
QUANT = {
    "format": (),
    "numbers": ("format",),
    "text": ("format",),
    "blocks": ("format", "numbers"),
    "model": ("format", "numbers", "blocks"),
}

# The same of runtime; quant and the public headers are below all of them.
'''),('''    "quant/": {"own": ("quant/",), "system": FREESTANDING, "third": set()},
''','''    "quant/": {"own": (), "system": FREESTANDING, "third": set()},
    **{
        f"quant/{folder}/": {"own": tuple(f"quant/{other}/" for other in (folder, *below)), "system": FREESTANDING, "third": set()}
        for folder, below in QUANT.items()
    },
'''))
sub('docs/extending.md',('`quant/{format,architectures}.h`','`quant/format/{format,architectures}.h`'))
sub('tests/house/layering.py',('    rejects("quant includes itself", "quant/x.h", \'"quant/a.h"\', None),\n',''),
    ('rejects("quant includes runtime", "quant/x.h",','rejects("quant includes runtime", "quant/model/x.h",'),
    ('             **{f"runtime/{f}/{f}.h": "" for f in RUNTIME}}','             **{f"quant/{f}/{f}.h": "" for f in QUANT}, **{f"runtime/{f}/{f}.h": "" for f in RUNTIME}}'),
    ('for root, folders in (("platforms/hosted", HOSTED), ("runtime", RUNTIME))','for root, folders in (("platforms/hosted", HOSTED), ("quant", {f: (below, ()) for f, below in QUANT.items()}), ("runtime", RUNTIME))'),
    ('for folder in ("quant", "runtime",','for folder in ("quant", *(f"quant/{folder}" for folder in QUANT), "runtime",'))
sub('tests/house/layering.py',('rejects("a missing file", "quant/x.cpp", \'"quant/missing.h"\'','rejects("a missing file", "quant/format/x.cpp", \'"quant/format/missing.h"\''))
import re as _r
p='docs/architecture.md'; s=open(p).read()
row=_r.search(r'\| `quant/` \|.*\n',s)
cells=row[0].strip().strip('|').split('|')
s=s.replace(row[0],"""| `quant/format/` | structs of the file; sizes, reasons, checksums | freestanding headers |
| `quant/numbers/` | number formats, layout tile16, quantizers | the row above |
| `quant/text/` | formats and rules of a tokenizer and a chat template, Unicode | `format` |
| `quant/blocks/` | what a file and a plan need to know of each block | `format`, `numbers` |
| `quant/model/` | a config, its list of tensors, the memory plan | `format`, `numbers`, `blocks` |
""")
open(p,'w').write(s)
print(row[0])
