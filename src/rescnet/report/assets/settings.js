// The configuration against what it started from, the command, and where the model comes from.
function settings() {
  const { base, rows, command, rebuilt } = DATA.settings;
  const differing = rows.filter((row) => row.differs);
  const many = `${plural(differing.length, 'option')} ${differing.length === 1 ? 'differs' : 'differ'} from ${base}.`;
  say(
    'settings-words',
    differing.length ? many : `All options are those of ${base}.`,
    rebuilt ? 'A command that trains with these options:' : 'It was trained by:',
  );
  byId('command').append(command);
  const made = (chosen) => {
    const all = table(
      ['option', 'value', base, 'meaning'],
      chosen.map((row) => [row.name, row.value, row.base, row.meaning]),
    );
    all.querySelectorAll('tbody tr').forEach((line, i) => {
      if (chosen[i].differs) line.className = 'differs';
      line.lastChild.className = 'soft';
    });
    return all;
  };
  if (differing.length) byId('settings-table').append(made(differing));
  const rest = byId('settings-rest');
  rest.querySelector('summary').append(`All ${rows.length} options`);
  rest.querySelector('div').append(made(rows));
  const { about } = DATA.headline;
  byId('about-table').append(about.length ? table(null, about) : node('p', null, 'The model does not say.'));
}
