// The images it is most wrong about; a click leads to the image's story.
function gallery() {
  const group = DATA.groups.find(({ key }) => key === 'wrong');
  if (!DATA.evaluation) {
    say('wrong-lede', HOW_TO_GET_IMAGES);
    return;
  }
  if (!group) {
    byId('wrong-lede').append(
      `There are none: all ${count(DATA.evaluation.images)} ${DATA.evaluation.split} images are right.`,
    );
    return;
  }
  say(
    'wrong-lede',
    `Of ${count(group.total)} wrong answers after layer ${LAYERS}, those whose true class lies furthest`,
    'behind the class answered. Choose one to see how it came about.',
  );
  byId('gallery').append(
    ...group.images.map((number) => {
      const image = DATA.images[number];
      const go = () => {
        choose(number);
        byId('story-figure').scrollIntoView({ block: 'center' });
      };
      return node(
        'button',
        { type: 'button', onclick: go },
        node('img', { class: 'pixels', src: image.picture, alt: caption(image) }),
        node('span', { class: 'answer' }, `answered ${NAMES[image.answer]}`),
        node('span', { class: 'truth' }, `is ${NAMES[image.label]}`),
        node('span', { class: 'lead' }, `${minus(-image.lead.at(-1) / UNIT)} behind · no. ${image.index}`),
      );
    }),
  );
}
